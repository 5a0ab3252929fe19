"""The controller of ResourceClaims: it makes those of templates, and frees those that nobody uses any more."""

from collections.abc import Iterable

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.wire import controller_of, is_finished, is_terminating, key_of, spec_of
from autoscaler.sandbox.actors.workqueue import QueueActor, WorkQueue
from autoscaler.sandbox.apiserver.patch import PatchType
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.sandbox.apiserver.storage import Storage

CLAIMS = "resourceclaims.resource.k8s.io"
_TEMPLATES = "resourceclaimtemplates.resource.k8s.io"
_OF_POD = "resource.kubernetes.io/pod-claim-name"
_POD, _CLAIM = "pod", "claim"


def claim_name(pod: str, reference: str) -> str:
    """Return the name of the claim that is made for a pod from a template."""
    return f"{pod}-{reference}"


class ClaimController(QueueActor[tuple[str, str, str]]):
    """Keeps the claims of pods. Claims of pods that are gone go with them: they own them."""

    def __init__(self, storage: Storage, informers: SharedInformers) -> None:
        self._storage = storage
        self._pods = informers.informer("pods")
        self._claims = informers.informer(CLAIMS)
        self._templates = informers.informer(_TEMPLATES)
        self._queue = WorkQueue()
        self._pods.subscribe(self._pod_changed)
        self._claims.subscribe(self._claim_changed)
        self._templates.subscribe(self._template_changed)

    def _pod_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None and spec_of(new).get("resourceClaims"):
            self._queue.add((_POD, *key_of(new)))
        pod = new if new is not None else old
        if pod is not None and (new is None or is_finished(new)):
            for key in self._claims_of(pod):
                self._queue.add((_CLAIM, *key))

    def _claim_changed(self, _old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None:
            self._queue.add((_CLAIM, *key_of(new)))

    def _template_changed(self, _old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None:
            return
        for pod in self._pods.in_namespace(key_of(new)[0]):
            if any(ref.get("resourceClaimTemplateName") == key_of(new)[1] for ref in _references(pod)):
                self._queue.add((_POD, *key_of(pod)))

    def _claims_of(self, pod: JsonObject) -> Iterable[Key]:
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        users = ((key_of(claim), _users(claim)) for claim in self._claims.in_namespace(namespace))
        return [key for key, using in users if any(user["uid"] == uid for user in using)]

    def _sync(self, key: tuple[str, str, str], now: Instant) -> None:
        kind, *rest = key
        namespace, name = rest
        if kind == _CLAIM:
            self._free(self._claims.objects.get((namespace, name)))
        else:
            self._make(self._pods.objects.get((namespace, name)))

    def _make(self, pod: JsonObject | None) -> None:
        """Make the claims of a pod from their templates."""
        if pod is None or is_finished(pod) or is_terminating(pod):
            return
        namespace, name = key_of(pod)
        statuses = []
        for ref in _references(pod):
            template = self._templates.objects.get((namespace, ref.get("resourceClaimTemplateName") or ""))
            if template is None:
                continue
            made = claim_name(name, ref["name"])
            statuses.append({"name": ref["name"], "resourceClaimName": made})
            if (namespace, made) not in self._claims.objects:
                self._storage.create(CLAIMS, _claim(pod, made, ref["name"], template), namespace=namespace)
        if statuses and (pod.get("status") or {}).get("resourceClaimStatuses") != statuses:
            patch = {"status": {"resourceClaimStatuses": statuses}}
            self._storage.patch(
                "pods", name, patch, namespace=namespace, patch_type=PatchType.STRATEGIC, subresource="status"
            )

    def _free(self, claim: JsonObject | None) -> None:
        """Forget users of a claim that are gone, and deallocate it when the last one is."""
        if claim is None:
            return
        namespace, name = key_of(claim)
        users = _users(claim)
        left = [user for user in users if self._is_using(namespace, user)]
        if left == users:
            return
        if not left and controller_of(claim) is not None:
            self._storage.delete(CLAIMS, name, namespace=namespace)
            return
        status: JsonObject = {"reservedFor": left} if left else {"reservedFor": None, "allocation": None}
        self._storage.patch(CLAIMS, name, {"status": status}, namespace=namespace, subresource="status")

    def _is_using(self, namespace: str, user: JsonObject) -> bool:
        pod = self._pods.objects.get((namespace, user["name"]))
        return pod is not None and pod["metadata"]["uid"] == user["uid"] and not is_finished(pod)


def _references(pod: JsonObject) -> list[JsonObject]:
    return spec_of(pod).get("resourceClaims") or []


def _users(claim: JsonObject) -> list[JsonObject]:
    return (claim.get("status") or {}).get("reservedFor") or []


def _claim(pod: JsonObject, name: str, reference: str, template: JsonObject) -> JsonObject:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    metadata = {
        "name": name,
        "annotations": {_OF_POD: reference},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    return {"metadata": metadata, "spec": template["spec"]["spec"]}
