{{- define "sluice.labels" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "sluice.secret" -}}
{{ .Values.secret.existing | default .Release.Name }}
{{- end }}
