{{- define "codeq.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "codeq.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "codeq.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "codeq.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "codeq.selector" -}}
app.kubernetes.io/name: {{ include "codeq.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "codeq.labels" -}}
{{ include "codeq.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "codeq.secret" -}}
{{- default (printf "%s-secrets" (include "codeq.fullname" .)) .Values.existingSecret -}}
{{- end -}}

{{/* The name of a pod in DNS; the kubelet writes its own into /etc/hosts, so it is known at once. */}}
{{- define "codeq.podDomain" -}}
{{- printf "%s-pods.%s.svc.%s" (include "codeq.fullname" .) .Release.Namespace .Values.cluster.domain -}}
{{- end -}}

{{- define "codeq.members" -}}
{{- $name := include "codeq.fullname" . -}}
{{- $domain := include "codeq.podDomain" . -}}
{{- range $at := until (int .Values.cluster.nodes) -}}
{{- if $at }},{{ end }}{{ printf "%s-%d=%s-%d.%s:7000" $name $at $name $at $domain }}
{{- end -}}
{{- end -}}

{{- define "codeq.probeScheme" -}}
{{- if .Values.config.tlsCertFile }}HTTPS{{ else }}HTTP{{ end -}}
{{- end -}}
