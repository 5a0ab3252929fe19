{{- /* Values that would mean something else than their writer thinks. The schema refuses what it can see. */ -}}
{{- define "node-autoscaler.checks" -}}
{{- $args := include "node-autoscaler.args" . | fromYamlArray }}
{{- if not .Values.image.repository }}
{{- fail "image.repository: name the image that you pushed; there is no public one yet" }}
{{- end }}
{{- if hasSuffix "autoscaling/cluster-autoscaler" .Values.image.repository }}
{{- fail (printf "image.repository: %s is Cluster Autoscaler; name an image of the node autoscaler" .Values.image.repository) }}
{{- end }}
{{- if regexMatch "^v1\\.[1-9][0-9]\\.[0-9]+$" (toString .Values.image.tag) }}
{{- fail (printf "image.tag: %s is a version of Cluster Autoscaler; leave it out, or name the tag that you pushed" .Values.image.tag) }}
{{- end }}
{{- range $key, $value := .Values.extraArgs }}
{{- if hasPrefix "-" $key }}
{{- fail (printf "extraArgs: write %s instead of %s" (regexReplaceAll "^-+" $key "") $key) }}
{{- end }}
{{- end }}
{{- range $key, $value := dict "namespace" "helm --namespace" "cloud-provider" "cloudProvider" "config" "config" }}
{{- if or (hasKey $.Values.extraArgs $key) (include "node-autoscaler.named" (dict "words" $.Values.customArgs "flag" $key)) }}
{{- fail (printf "extraArgs and customArgs: set --%s with %s" $key $value) }}
{{- end }}
{{- end }}
{{- range list "address" "leader-elect-resource-name" "pause-config-map-name" "reservations-address" "status-config-map-name" }}
{{- if include "node-autoscaler.named" (dict "words" $.Values.customArgs "flag" .) }}
{{- fail (printf "customArgs: set --%s in extraArgs, which ports and permissions follow" .) }}
{{- end }}
{{- end }}
{{- if and .Values.azureUseWorkloadIdentityExtension .Values.azureUseManagedIdentityExtension }}
{{- fail "azureUseManagedIdentityExtension: set either this or azureUseWorkloadIdentityExtension" }}
{{- end }}
{{- if and .Values.cloudConfig .Values.cloudConfigPath }}
{{- fail "cloudConfigPath: set either this or cloudConfig" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.service.create) }}
{{- fail "service.create: the ServiceMonitor needs the Service" }}
{{- end }}
{{- if and .Values.vpa.enabled (not .Values.vpa.containerPolicy) }}
{{- fail "vpa.containerPolicy: a VerticalPodAutoscaler needs one" }}
{{- end }}
{{- if has .Values.cloudProvider (list "aws" "azure" "gce") }}
{{- $found := list }}
{{- range list "nodes" "node-group-auto-discovery" }}
{{- if include "node-autoscaler.named" (dict "words" $args "flag" .) }}{{ $found = append $found . }}{{ end }}
{{- end }}
{{- if not (or $found .Values.config.provider) }}
{{- $way := ternary "autoscalingGroupsnamePrefix" "autoDiscovery.clusterName" (eq .Values.cloudProvider "gce") }}
{{- fail (printf "%s: name node groups here or in autoscalingGroups" $way) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Whether a list of arguments has a flag. */ -}}
{{- define "node-autoscaler.named" -}}
{{- range .words }}
{{- if regexMatch (printf "^--?%s(=|$)" $.flag) (toString .) }}true{{ end }}
{{- end }}
{{- end }}
