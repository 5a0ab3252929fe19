{{- define "node-autoscaler.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "node-autoscaler.fullname" -}}
{{- $name := include "node-autoscaler.name" . -}}
{{- $made := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $made | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "node-autoscaler.selector" -}}
app.kubernetes.io/name: {{ include "node-autoscaler.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "node-autoscaler.labels" -}}
{{ include "node-autoscaler.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: node-autoscaler
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Metadata of an object. Takes root, name, and where they are wanted namespace, annotations, labels. */ -}}
{{- define "node-autoscaler.metadata" -}}
name: {{ .name }}
{{- with .namespace }}
namespace: {{ . }}
{{- end }}
labels:
  {{- merge (deepCopy (.labels | default dict)) (include "node-autoscaler.labels" .root | fromYaml) | toYaml | nindent 2 }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "node-autoscaler.serviceAccount" -}}
{{- $made := ternary (include "node-autoscaler.fullname" .) "default" .Values.rbac.serviceAccount.create -}}
{{- .Values.rbac.serviceAccount.name | default $made -}}
{{- end }}

{{- /* Whether the pods and nodes, and whether the Machines of Cluster API, are in the cluster of this release. */ -}}
{{- define "node-autoscaler.workloadHere" -}}
{{- if or (ne .Values.cloudProvider "clusterapi") (hasPrefix "incluster-" .Values.clusterAPIMode) }}true{{ end -}}
{{- end }}

{{- define "node-autoscaler.managementHere" -}}
{{- if and (eq .Values.cloudProvider "clusterapi") (hasSuffix "-incluster" .Values.clusterAPIMode) }}true{{ end -}}
{{- end }}

{{- define "node-autoscaler.leaseName" -}}
{{- index .Values.extraArgs "leader-elect-resource-name" | default "cluster-autoscaler" -}}
{{- end }}

{{- define "node-autoscaler.statusName" -}}
{{- index .Values.extraArgs "status-config-map-name" | default "cluster-autoscaler-status" -}}
{{- end }}

{{- define "node-autoscaler.pauseName" -}}
{{- index .Values.extraArgs "pause-config-map-name" | default "cluster-autoscaler-pause" -}}
{{- end }}

{{- define "node-autoscaler.hasPriorityExpander" -}}
{{- if has "priority" (splitList "," (.Values.extraArgs.expander | default "")) }}true{{ end -}}
{{- end }}

{{- define "node-autoscaler.port" -}}
{{- .Values.extraArgs.address | default ":8085" | toString | regexFind "[0-9]+$" -}}
{{- end }}

{{- define "node-autoscaler.reservationsPort" -}}
{{- index .Values.extraArgs "reservations-address" | default .Values.reservations.listen | default "" | toString | regexFind "[0-9]+$" -}}
{{- end }}

{{- /* The configuration file, which is empty if no value asks for one. JSON: YAML would write large numbers as 1e+06. */ -}}
{{- define "node-autoscaler.config" -}}
{{- $file := deepCopy .Values.config -}}
{{- with .Values.headroom }}{{ $_ := set $file "headroom" . }}{{ end -}}
{{- with .Values.reservations }}{{ $_ := set $file "reservations" . }}{{ end -}}
{{- with $file }}{{ toPrettyJson . }}{{ end -}}
{{- end }}

{{- define "node-autoscaler.discovery" -}}
{{- with .Values.autoDiscovery }}
{{- $cluster := .clusterName | default "" | toString }}
{{- if eq $.Values.cloudProvider "clusterapi" }}
  {{- $terms := list }}
  {{- with $cluster }}{{ $terms = append $terms (printf "clusterName=%s" (tpl . $)) }}{{ end }}
  {{- with .namespace }}{{ $terms = append $terms (printf "namespace=%s" .) }}{{ end }}
  {{- range .labels }}{{ range $key, $value := . }}{{ $terms = append $terms (printf "%s=%v" $key $value) }}{{ end }}{{ end }}
  {{- with $terms }}
- {{ printf "--node-group-auto-discovery=clusterapi:%s" (join "," .) | quote }}
  {{- end }}
{{- else if and $cluster (eq $.Values.cloudProvider "aws") }}
- {{ printf "--node-group-auto-discovery=asg:tag=%s" (tpl (join "," .tags) $) | quote }}
{{- else if and $cluster (eq $.Values.cloudProvider "azure") }}
- {{ printf "--node-group-auto-discovery=label:cluster-autoscaler-enabled=true,cluster-autoscaler-name=%s" (tpl $cluster $) | quote }}
{{- end }}
{{- end }}
{{- if eq .Values.cloudProvider "gce" }}
{{- range .Values.autoscalingGroupsnamePrefix }}
- {{ printf "--node-group-auto-discovery=mig:namePrefix=%s,min=%d,max=%d" (tpl .name $) (int .minSize) (int .maxSize) | quote }}
{{- end }}
{{- end }}
{{- range .Values.autoscalingGroups }}
- {{ printf "--nodes=%d:%d:%s" (int .minSize) (int .maxSize) .name | quote }}
{{- end }}
{{- end }}

{{- define "node-autoscaler.kubeconfigs" -}}
{{- if eq .Values.cloudProvider "clusterapi" }}
{{- if not (include "node-autoscaler.workloadHere" .) }}
- {{ printf "--kubeconfig=%s" .Values.clusterAPIWorkloadKubeconfigPath | quote }}
{{- end }}
{{- if has .Values.clusterAPIMode (list "incluster-kubeconfig" "kubeconfig-kubeconfig") }}
- {{ printf "--cloud-config=%s" .Values.clusterAPICloudConfigPath | quote }}
{{- else if eq .Values.clusterAPIMode "kubeconfig-incluster" }}
- --clusterapi-cloud-config-authoritative
{{- end }}
{{- end }}
{{- end }}

{{- define "node-autoscaler.features" -}}
{{- if .Values.dryRun }}
- --dry-run
{{- end }}
{{- if .Values.persistBootTimes }}
- --persist-boot-times
{{- end }}
{{- with .Values.expiredPods.namespaces }}
- --expired-pod-cleanup
{{- range . }}
- {{ printf "--expired-pod-namespaces=%s" . | quote }}
{{- end }}
{{- end }}
{{- if .Values.capacityBuffers.enabled }}
- --capacity-buffer-controller-enabled
- --capacity-buffer-pod-injection-enabled
{{- end }}
{{- range .Values.drainGrace }}
- {{ printf "--drain-grace=%s" . | quote }}
{{- end }}
{{- if .Values.capacityQuotas.enabled }}
- --capacity-quotas-enabled
{{- end }}
{{- if .Values.provisioningRequests.enabled }}
- --enable-provisioning-requests
{{- end }}
{{- end }}

{{- /* Numbers as JSON, because a template would write 1000000 as 1e+06. */ -}}
{{- define "node-autoscaler.extraArgs" -}}
{{- range $key, $value := .Values.extraArgs }}
{{- $flag := regexFind "^[^_]+" $key }}
{{- if kindIs "invalid" $value }}
- {{ printf "--%s" $flag | quote }}
{{- else }}
- {{ printf "--%s=%s" $flag (ternary $value (toJson $value) (kindIs "string" $value)) | quote }}
{{- end }}
{{- end }}
{{- range .Values.customArgs }}
- {{ . | toString | quote }}
{{- end }}
{{- end }}

{{- define "node-autoscaler.args" -}}
{{- $elsewhere := and (eq .Values.cloudProvider "clusterapi") (eq .Values.clusterAPIMode "kubeconfig-incluster") -}}
- {{ printf "--cloud-provider=%s" .Values.cloudProvider | quote }}
- {{ printf "--namespace=%s" (ternary (.Values.clusterAPIConfigMapsNamespace | default "kube-system") .Release.Namespace $elsewhere) | quote }}
{{- include "node-autoscaler.discovery" . }}
{{- include "node-autoscaler.kubeconfigs" . }}
{{- if .Values.cloudConfig }}
- --cloud-config=/etc/autoscaler/cloud-config.yaml
{{- else if .Values.cloudConfigPath }}
- {{ printf "--cloud-config=%s" .Values.cloudConfigPath | quote }}
{{- end }}
{{- if include "node-autoscaler.config" . }}
- --config=/etc/autoscaler/config.yaml
{{- end }}
{{- if .Values.prices }}
- --price-file=/etc/autoscaler/prices.yaml
{{- end }}
{{- include "node-autoscaler.features" . }}
{{- include "node-autoscaler.extraArgs" . }}
{{- end }}

{{- /* Environment variables of a cloud, by variable: the key in the Secret, and the value. */ -}}
{{- define "node-autoscaler.credentials" -}}
{{- if eq .Values.cloudProvider "aws" }}
AWS_ACCESS_KEY_ID: {key: AwsAccessKeyId, value: {{ .Values.awsAccessKeyID | quote }}}
AWS_SECRET_ACCESS_KEY: {key: AwsSecretAccessKey, value: {{ .Values.awsSecretAccessKey | quote }}}
{{- else if eq .Values.cloudProvider "azure" }}
ARM_SUBSCRIPTION_ID: {key: SubscriptionID, value: {{ .Values.azureSubscriptionID | quote }}}
ARM_RESOURCE_GROUP: {key: ResourceGroup, value: {{ .Values.azureResourceGroup | quote }}}
{{- if .Values.azureUseManagedIdentityExtension }}
ARM_USER_ASSIGNED_IDENTITY_ID: {key: UserAssignedIdentityID, value: {{ .Values.azureUserAssignedIdentityID | quote }}}
{{- else if not .Values.azureUseWorkloadIdentityExtension }}
ARM_TENANT_ID: {key: TenantID, value: {{ .Values.azureTenantID | quote }}}
ARM_CLIENT_ID: {key: ClientID, value: {{ .Values.azureClientID | quote }}}
ARM_CLIENT_SECRET: {key: ClientSecret, value: {{ .Values.azureClientSecret | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{- define "node-autoscaler.env" -}}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- with and (eq .Values.cloudProvider "aws") (tpl .Values.awsRegion .) }}
- name: AWS_REGION
  value: {{ . | quote }}
{{- end }}
{{- range $variable, $from := include "node-autoscaler.credentials" . | fromYaml }}
{{- if or $from.value $.Values.secretKeyRefNameOverride }}
- name: {{ quote $variable }}
  valueFrom:
    secretKeyRef:
      name: {{ $.Values.secretKeyRefNameOverride | default (include "node-autoscaler.fullname" $) | quote }}
      key: {{ $from.key }}
{{- end }}
{{- end }}
{{- if eq .Values.cloudProvider "azure" }}
- name: AZURE_ENABLE_FORCE_DELETE
  value: {{ .Values.azureEnableForceDelete | quote }}
- name: AZURE_ENABLE_VMSS_ETAG
  value: {{ .Values.azureEnableVMSSEtag | quote }}
{{- if .Values.azureUseWorkloadIdentityExtension }}
- name: ARM_USE_WORKLOAD_IDENTITY_EXTENSION
  value: "true"
{{- else if .Values.azureUseManagedIdentityExtension }}
- name: ARM_USE_MANAGED_IDENTITY_EXTENSION
  value: "true"
{{- end }}
{{- end }}
{{- range $variable, $value := .Values.extraEnv }}
- name: {{ quote $variable }}
  value: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
{{- end }}
{{- range $variable, $from := .Values.extraEnvConfigMaps }}
- name: {{ quote $variable }}
  valueFrom:
    configMapKeyRef:
      {{- dict "name" ($from.name | default (include "node-autoscaler.fullname" $)) "key" $from.key | toYaml | nindent 6 }}
{{- end }}
{{- range $variable, $from := .Values.extraEnvSecrets }}
- name: {{ quote $variable }}
  valueFrom:
    secretKeyRef:
      {{- dict "name" ($from.name | default (include "node-autoscaler.fullname" $)) "key" $from.key | toYaml | nindent 6 }}
{{- end }}
{{- end }}

{{- /* What is mounted: by volume name, where, and the source of the volume. */ -}}
{{- define "node-autoscaler.volumes" -}}
{{- $name := include "node-autoscaler.fullname" . }}
tmp:
  mountPath: /tmp
  source: {emptyDir: {sizeLimit: 16Mi}}
{{- if include "node-autoscaler.files" . }}
files:
  mountPath: /etc/autoscaler
  source: {configMap: {name: {{ $name }}}}
{{- end }}
{{- if .Values.reservations }}
reservation-secrets:
  mountPath: /etc/reservations
  source: {secret: {secretName: {{ quote .Values.reservationsSecretName }}, defaultMode: 0440}}
{{- end }}
{{- if .Values.clusterAPIKubeconfigSecret }}
cluster-api-kubeconfig:
  mountPath: {{ .Values.clusterAPIWorkloadKubeconfigPath | trimSuffix "/value" | quote }}
  source: {secret: {secretName: {{ quote .Values.clusterAPIKubeconfigSecret }}, defaultMode: 0440}}
{{- end }}
{{- range $volume, $from := .Values.extraVolumeSecrets }}
{{ quote $volume }}:
  mountPath: {{ quote $from.mountPath }}
  source:
    secret:
      secretName: {{ $from.name | default $name | quote }}
      defaultMode: 0440
      {{- with $from.items }}
      items:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end }}
{{- end }}

{{- /* Files of the ConfigMap, by name. */ -}}
{{- define "node-autoscaler.files" -}}
{{- with include "node-autoscaler.config" . }}
config.yaml: |-
  {{- . | nindent 2 }}
{{- end }}
{{- with .Values.prices }}
prices.yaml: |-
  {{- toPrettyJson . | nindent 2 }}
{{- end }}
{{- with .Values.cloudConfig }}
cloud-config.yaml: |-
  {{- ternary . (toPrettyJson .) (kindIs "string" .) | nindent 2 }}
{{- end }}
{{- end }}
