{{- /* Permissions, verb by verb. Those of the same features in manifests/ are equal. */ -}}

{{- define "node-autoscaler.clusterRules" -}}
{{- if include "node-autoscaler.workloadHere" . }}
{{- $read := .Values.dryRun | ternary "[list, watch]" "[get, list, watch]" }}
# Objects that decisions read.
- apiGroups: [""]
  resources:
    - namespaces
    - nodes
    - persistentvolumeclaims
    - persistentvolumes
    - pods
    - replicationcontrollers
  verbs: {{ $read }}
- apiGroups: [apps]
  resources: [daemonsets, replicasets, statefulsets]
  verbs: {{ $read }}
- apiGroups: [batch]
  resources: [jobs]
  verbs: {{ $read }}
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: {{ $read }}
- apiGroups: [storage.k8s.io]
  resources: [csidrivers, csinodes, csistoragecapacities, storageclasses, volumeattachments]
  verbs: {{ $read }}
# Devices and claims on them, where the cluster has that API.
- apiGroups: [resource.k8s.io]
  resources: [deviceclasses, devicetaintrules, resourceclaims, resourceclaimtemplates, resourceslices]
  verbs: {{ $read }}
# What states the minimum of a gang of pods, where the cluster has such an API.
- apiGroups: [scheduling.k8s.io, scheduling.volcano.sh, scheduling.x-k8s.io]
  resources: [podgroups]
  verbs: {{ $read }}
- apiGroups: [scheduling.k8s.io]
  resources: [workloads]
  verbs: {{ $read }}
{{- if not .Values.dryRun }}
# Taints and annotations of nodes that are being removed.
- apiGroups: [""]
  resources: [nodes]
  verbs: [update]
# Draining: always by eviction, so that PodDisruptionBudgets apply.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# Why a pod waits or moves, for `kubectl describe`.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- include "node-autoscaler.kwokRules" . }}
{{- include "node-autoscaler.bufferRules" . }}
{{- include "node-autoscaler.quotaRules" . }}
{{- include "node-autoscaler.requestRules" . }}
{{- include "node-autoscaler.classRules" . }}
{{- include "node-autoscaler.graceRules" . }}
{{- if and (has "*" .Values.expiredPods.namespaces) (not .Values.dryRun) }}
{{ include "node-autoscaler.expiredRules" . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "node-autoscaler.graceRules" -}}
{{- if and (contains ";overrule" (join "," .Values.drainGrace)) (not .Values.dryRun) }}
# Pods whose eviction a PodDisruptionBudget forbids after the grace of --drain-grace.
- apiGroups: [""]
  resources: [pods]
  verbs: [delete]
{{- end }}
{{- end }}

{{- define "node-autoscaler.kwokRules" -}}
{{- if and (eq .Values.cloudProvider "kwok") (not .Values.dryRun) }}
# Only the kwok provider creates and deletes Node objects.
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, create, delete]
{{- end }}
{{- end }}

{{- define "node-autoscaler.bufferRules" -}}
{{- if .Values.capacityBuffers.enabled }}
{{- $read := .Values.dryRun | ternary "[list, watch]" "[get, list, watch]" }}
# Buffers, the controllers that they refer to, and the quotas that limit them.
- apiGroups: [autoscaling.x-k8s.io]
  resources: [capacitybuffers]
  verbs: {{ $read }}
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [resourcequotas]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [podtemplates]
  verbs: [list, watch]
{{- if not .Values.dryRun }}
# Their statuses.
- apiGroups: [autoscaling.x-k8s.io]
  resources: [capacitybuffers/status]
  verbs: [update]
# If a buffer refers to a controller, the controller's template is stored as a PodTemplate that the buffer owns.
- apiGroups: [""]
  resources: [podtemplates]
  verbs: [create, patch]
# The API server completes that template by a dry run of its pod; no pod is created. Without this permission, or with
# --capacity-buffer-pod-dry-run-enabled=false, the template is used as it is written.
- apiGroups: [""]
  resources: [pods]
  verbs: [create]
{{- end }}
{{- end }}
{{- end }}

{{- define "node-autoscaler.quotaRules" -}}
{{- if .Values.capacityQuotas.enabled }}
- apiGroups: [autoscaling.x-k8s.io]
  resources: [capacityquotas]
  verbs: {{ .Values.dryRun | ternary "[list, watch]" "[get, list, watch]" }}
{{- if not .Values.dryRun }}
# Their statuses.
- apiGroups: [autoscaling.x-k8s.io]
  resources: [capacityquotas/status]
  verbs: [update]
{{- end }}
{{- end }}
{{- end }}

{{- define "node-autoscaler.requestRules" -}}
{{- if .Values.provisioningRequests.enabled }}
# Requests and their pod templates. Requests that ended more than a week ago are deleted.
- apiGroups: [autoscaling.x-k8s.io]
  resources: [provisioningrequests]
  verbs: {{ .Values.dryRun | ternary "[list, watch]" "[get, list, watch, delete]" }}
- apiGroups: [""]
  resources: [podtemplates]
  verbs: [list, watch]
{{- if not .Values.dryRun }}
# Their conditions.
- apiGroups: [autoscaling.x-k8s.io]
  resources: [provisioningrequests/status]
  verbs: [update]
{{- end }}
{{- end }}
{{- end }}

{{- define "node-autoscaler.classRules" -}}
{{- if and .Values.headroom (not .Values.dryRun) }}
{{- $classes := list "cluster-headroom" }}
{{- range .Values.headroom.pools }}{{ with .priorityClassName }}{{ $classes = append $classes . }}{{ end }}{{ end }}
# The PriorityClass of pause pods: created if it is missing, never changed. RBAC cannot limit `create` to a name.
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [create]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  resourceNames: {{ uniq $classes | toJson }}
  verbs: [get]
{{- end }}
{{- end }}

{{- define "node-autoscaler.machineRules" -}}
{{- if include "node-autoscaler.managementHere" . }}
- apiGroups: [cluster.x-k8s.io]
  resources: [machinedeployments, machinepools, machines, machinesets]
  verbs: [list]
{{- if not .Values.dryRun }}
# Marks the Machines to delete.
- apiGroups: [cluster.x-k8s.io]
  resources: [machines]
  verbs: [get, update]
{{- end }}
- apiGroups: [cluster.x-k8s.io]
  resources: [machinedeployments/scale, machinepools/scale, machinesets/scale]
  verbs: {{ .Values.dryRun | ternary "[get]" "[get, update]" }}
{{- end }}
{{- with .Values.rbac.additionalRules }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* In the namespace of the release. RBAC cannot limit `create` to a name. */ -}}
{{- define "node-autoscaler.namespaceRules" -}}
{{- if include "node-autoscaler.workloadHere" . }}
{{- if not .Values.dryRun }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "node-autoscaler.leaseName" . | quote }}]
  verbs: [get, update]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "node-autoscaler.statusName" . | quote }}]
  verbs: [get, update, delete]
{{- if .Values.persistBootTimes }}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [cluster-autoscaler-boot-times]
  verbs: [get, update]
{{- end }}
{{- end }}
# What people pause, and what the autoscaler pauses itself; list and watch select it by name.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "node-autoscaler.pauseName" . | quote }}]
  verbs: {{ .Values.dryRun | ternary "[list, watch]" "[get, list, watch, update]" }}
{{- if or (not .Values.dryRun) (include "node-autoscaler.hasPriorityExpander" .) }}
# Read by the priority expander; list and watch select it by name.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [cluster-autoscaler-priority-expander]
  verbs: {{ .Values.dryRun | ternary "[list, watch]" "[get, list, watch]" }}
{{- end }}
{{- if eq .Values.cloudProvider "kwok" }}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [kwok-provider-config, kwok-provider-templates]
  verbs: [get]
{{- end }}
{{- end }}
{{- if not .Values.rbac.clusterScoped }}
{{- include "node-autoscaler.machineRules" . }}
{{- end }}
{{- end }}

{{- define "node-autoscaler.poolRules" -}}
- apiGroups: [apps]
  resources: [deployments]
  verbs: [create, delete, get, list, update]
# Marks the pause pods to delete first.
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
{{- end }}

{{- define "node-autoscaler.expiredRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [delete, list]
{{- end }}

{{- define "node-autoscaler.storeRules" -}}
# Reservations are stored in ConfigMaps. RBAC cannot limit `create`, `list` and `watch` to names.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, get, list, update]
{{- end }}

{{- define "node-autoscaler.templateRules" -}}
- apiGroups: [""]
  resources: [podtemplates]
  verbs: [get]
{{- end }}
