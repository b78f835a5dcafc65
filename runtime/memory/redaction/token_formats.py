"""Secrets recognised by their format: tokens with a service's prefix, armoured keys, URLs with a password. Each format
is the service's documented one.

Left out on purpose: publishable keys (`pk_live_…`, `pk.…` of Mapbox, `sb_publishable_…`), ids of accounts and
applications, public keys, and tokens that are only hex, a UUID or letters and digits: those are found only by their
names (`named_secrets`).
"""

from __future__ import annotations

import re

from runtime.memory.redaction.pattern import REDACTED, FoundSecret, Pattern

_STAND_IN = re.compile(
    rb"\$.*|\{.*|<.*|%[A-Z_]+%|x{3,}|.{0,12}(?:\*+|\.{3,}|\xe2\x80\xa6)\W*", re.IGNORECASE | re.DOTALL
)
_UPPER, _LOWER, _DIGIT = re.compile(rb"[A-Z]"), re.compile(rb"[a-z]"), re.compile(rb"[0-9]")


def _is_value(found: FoundSecret) -> bool:
    """True unless the value is a variable or a placeholder."""
    return REDACTED.match(found.value) is not None or _STAND_IN.fullmatch(found.value) is None


def _is_mixed(found: FoundSecret) -> bool:
    return all(kind.search(found.value) for kind in (_UPPER, _LOWER, _DIGIT))


def _is_bearer(found: FoundSecret) -> bool:
    value = found.value
    both = _UPPER.search(value) is not None and _LOWER.search(value) is not None
    return _DIGIT.search(value) is not None or (both and len(value) >= 20) or len(value.partition(b"-")[0]) >= 24


def _is_credential(found: FoundSecret) -> bool:
    """True for a credential after `Authorization:`; without a scheme it may be prose ("Authorization: required")."""
    if not _is_value(found):
        return False
    scheme = found.before_value.lower()
    named = any(word in scheme for word in (b"bearer", b"basic", b"token", b"apikey"))
    return named or REDACTED.match(found.value) is not None or re.search(rb"[0-9=/+_]", found.value) is not None


def _marked_off(row: Pattern) -> Pattern:
    """Return the row with `_` as a word boundary, too: it is emphasis in Markdown, and a separator in file names."""
    if not row.regex.startswith(rb"\b") or re.compile(row.regex).groups:
        return row
    token, edge = row.regex.removeprefix(rb"\b"), rb"(?:\b|_)"
    whole = rb"(" + token.removesuffix(rb"\b") + rb")"
    return row._replace(regex=edge + whole + (edge if token.endswith(rb"\b") else b""))


_PEM = rb"(?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
_COOKIE = rb"[!#$%&*+.^_`|~0-9a-z-]+=([^\s;,\"'\[]{16,}|[^\s;,\"'\[]*[0-9][^\s;,\"'\[]{7,})"

_FORMS: tuple[Pattern, ...] = (
    Pattern("symbi_token", rb"\bsymbi_[0-9A-Za-z]{49}\b"),
    Pattern(
        "private_key",
        # A quoted mail has `>` before each line.
        rb"-----BEGIN " + _PEM + rb"(?:[\s>|]|\\+[nr])*(?:[A-Za-z-]+: [^\n]*[\s>|]+)*"
        rb"[A-Za-z0-9+/=]{24}(?:[A-Za-z0-9+/=\s>|]|\\+[nr])*(?:-----END " + _PEM + rb")?",
    ),
    Pattern("private_key", rb"\bclient-key-data[\"']?[ \t]*:[ \t]*[\"']?([A-Za-z0-9+/]{24,}={0,2})"),
    Pattern(
        "private_key", rb"\bPuTTY-User-Key-File-[23]:[^\0]*?\nPrivate-Lines: [0-9]+\s+((?:[A-Za-z0-9+/=]{4,64}\r?\n)+)"
    ),
    Pattern("age_key", rb"\bAGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    Pattern("mapbox_token", rb"\bsk\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}"),
    Pattern("onepassword_token", rb"\bops_eyJ[A-Za-z0-9+/_-]{100,}=*"),
    Pattern(
        "jwt",
        rb"\beyJ[A-Za-z0-9_-]{8,}\.(?:eyJ[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*|[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]{8,}){3})",
    ),
    Pattern(
        "aws_secret_key",
        rb"(?:\b(?:AKIA|ASIA)[A-Z0-9]{16}|\[REDACTED:aws_access_key\])[\"']?[\s,:;/|]{1,4}[\"']?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)",
        _is_mixed,
    ),
    Pattern("aws_access_key", rb"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    Pattern("aws_bedrock_key", rb"\bABSK[A-Za-z0-9+/]{100,}=*"),
    Pattern("github_token", rb"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})"),
    Pattern(
        "gitlab_token",
        rb"\b(?:gl(?:pat|dt|rt|ptt|oas|ffct|imt|agent|soat|ft)-(?:[A-Za-z0-9]+_)?[A-Za-z0-9_.-]{19,}[A-Za-z0-9_-]"
        rb"|glcbt-[A-Za-z0-9]{1,5}_[A-Za-z0-9_-]{20,}|GR1348941[A-Za-z0-9_-]{20,})",
    ),
    Pattern("slack_token", rb"\b(?:xox[a-z](?:\.xox[a-z])?|xapp)-[A-Za-z0-9-]{10,}"),
    Pattern("slack_webhook", rb"\bhooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9_/-]{20,})"),
    Pattern("discord_webhook", rb"\bdiscord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/[0-9]{15,22}/([A-Za-z0-9_-]{50,})"),
    Pattern(
        "teams_webhook",
        rb"\.webhook\.office\.com/webhookb2/([0-9a-fA-F-]{36}@[0-9a-fA-F-]{36}/IncomingWebhook/[A-Za-z0-9/-]{32,})",
    ),
    Pattern(
        "discord_token",
        rb"\b(?:[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45}|mfa\.[A-Za-z0-9_-]{80,})",
    ),
    Pattern("telegram_token", rb"\b(?:bot)?([0-9]{8,10}:AA[A-Za-z0-9_-]{33})(?:[^A-Za-z0-9_-]|$)"),
    Pattern("stripe_key", rb"\b(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}"),
    Pattern("webhook_secret", rb"\bwhsec_[A-Za-z0-9+/=_-]{16,}"),
    Pattern("square_token", rb"\b(?:sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{60}\b)"),
    Pattern("paypal_token", rb"\baccess_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}"),
    Pattern("plaid_token", rb"\baccess-(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    Pattern("shopify_token", rb"\bshp(?:at|ca|pa|ss|ua)_[0-9a-fA-F]{32}"),
    Pattern("anthropic_key", rb"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    Pattern("openrouter_key", rb"\bsk-or-v1-[0-9a-f]{32,}"),
    Pattern("openai_key", rb"\bsk-(?:[a-z0-9]{1,8}-)?[A-Za-z0-9_]{20,}[A-Za-z0-9_-]*"),
    Pattern("openai_key", rb"\b(sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,})"),
    Pattern("huggingface_token", rb"\b(?:hf_[A-Za-z]{34}|api_org_[A-Za-z]{34})\b"),
    Pattern("replicate_token", rb"\br8_[A-Za-z0-9]{37}\b"),
    Pattern("groq_key", rb"\bgsk_[A-Za-z0-9]{48,}"),
    Pattern("xai_key", rb"\bxai-[A-Za-z0-9]{70,}"),
    Pattern("perplexity_key", rb"\bpplx-[A-Za-z0-9]{40,}"),
    Pattern("nvidia_key", rb"\bnvapi-[A-Za-z0-9_-]{60,}"),
    Pattern("langfuse_key", rb"\bsk-lf-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    Pattern("langsmith_key", rb"\blsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    Pattern("google_api_key", rb"\bAIza[A-Za-z0-9_-]{35,}"),
    Pattern("google_oauth", rb"\b(?:GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{30,}|1//0[A-Za-z0-9_-]{40,})"),
    Pattern(
        "azure_key", rb"(?i:\b(?:AccountKey|SharedAccessKey|SharedSecretKey)[ \t]*=[ \t]*)([A-Za-z0-9+/]{40,}={0,2})"
    ),
    Pattern(
        "azure_sas",
        rb"(?:[?&;,\s\"']|\bSharedAccessSignature[ \t])(?i:[^\s\"'<>]*?\b(?:sv|se|sr|sp|skn)=[^\s\"'<>]*?&)?"
        rb"sig=((?:[A-Za-z0-9+/_-]|%2[BbFf]|%3[Dd]){40,}=*)",
    ),
    Pattern(
        "azure_secret",
        rb"(?:^|[^A-Za-z0-9_.~-])([A-Za-z0-9_.~-]{3}[0-9]Q~[A-Za-z0-9_.~-]{31,34})(?:$|[^A-Za-z0-9_.~-])",
    ),
    Pattern("alibaba_key", rb"\bLTAI[A-Za-z0-9]{20}\b"),
    Pattern("tencent_key", rb"\bAKID[A-Za-z0-9]{32}\b"),
    Pattern("digitalocean_token", rb"\bdo[opr]_v1_[0-9a-f]{64}"),
    Pattern("heroku_key", rb"\bHRKU-AA[A-Za-z0-9_-]{30,}"),
    Pattern("cloudflare_key", rb"\bv1\.0-[0-9a-f]{24}-[0-9a-f]{146}"),
    Pattern("fly_token", rb"\b(?:fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/]{100,}=*)"),
    Pattern("netlify_token", rb"\bnf[pcou]_[A-Za-z0-9]{36}\b"),
    Pattern("supabase_key", rb"\b(?:sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,})"),
    Pattern("planetscale_token", rb"\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9=._-]{32,}"),
    Pattern("databricks_token", rb"\bdapi[0-9a-f]{32}(?:-[0-9])?\b"),
    Pattern("vault_token", rb"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    Pattern("terraform_token", rb"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    Pattern("pulumi_token", rb"\bpul-[0-9a-f]{40}\b"),
    Pattern("doppler_token", rb"\bdp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}\b"),
    Pattern("tailscale_key", rb"\btskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9]{6,}-[A-Za-z0-9]{16,}"),
    Pattern("docker_token", rb"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    Pattern("npm_token", rb"\bnpm_[A-Za-z0-9]{36,}"),
    Pattern("pypi_token", rb"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
    Pattern("rubygems_key", rb"\brubygems_[0-9a-f]{48}"),
    Pattern("crates_token", rb"\bcio[A-Za-z0-9]{32}\b", _is_mixed),
    Pattern("nuget_key", rb"\boy2[a-z0-9]{43}\b"),
    Pattern("artifactory_key", rb"\b(?:AKCp[A-Za-z0-9]{69}|cmVmd[A-Za-z0-9]{59})\b"),
    Pattern("atlassian_token", rb"\b(?:AT(?:ATT|CTT)3[A-Za-z0-9_=-]{50,}|ATBB[A-Za-z0-9]{32})"),
    Pattern("linear_key", rb"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    Pattern("notion_token", rb"\b(?:ntn_[0-9]{11}[A-Za-z0-9]{35}|secret_[A-Za-z0-9]{43})\b", _is_mixed),
    Pattern("airtable_token", rb"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b"),
    Pattern("figma_token", rb"\bfig[do]_[A-Za-z0-9_-]{38,}"),
    Pattern("asana_token", rb"\b[0-9]/[0-9]{16}(?:/[0-9]{16})?:[0-9a-f]{32}\b"),
    Pattern("hubspot_token", rb"\bpat-(?:na|eu|ap)[0-9]-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    Pattern("contentful_token", rb"\bCFPAT-[A-Za-z0-9_-]{43}"),
    Pattern("sendgrid_key", rb"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    Pattern("mailgun_key", rb"\bkey-[0-9a-f]{32}\b"),
    Pattern("mailchimp_key", rb"\b[0-9a-f]{32}-us[0-9]{1,2}\b"),
    Pattern("brevo_key", rb"\bx(?:keysib|smtpsib)-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    Pattern("resend_key", rb"\bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}\b"),
    Pattern("twilio_key", rb"\bSK[0-9a-f]{32}\b"),
    Pattern("grafana_token", rb"\bgl(?:sa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}\b|c_[A-Za-z0-9+/]{32,}=*)"),
    Pattern("sentry_token", rb"\b(?:sntrys_eyJ[A-Za-z0-9+/=_-]{50,}|sntryu_[0-9a-f]{64})"),
    Pattern("newrelic_key", rb"\b(?:NRAK|NRIQ|NRII|NRRA)-[A-Za-z0-9-]{27,}"),
    Pattern("dynatrace_token", rb"\bdt0[a-z]01\.[A-Z0-9]{24}\.[A-Z0-9]{64}\b"),
    Pattern("postman_key", rb"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    Pattern("sonar_token", rb"\bsq[apu]_[0-9a-f]{40}\b"),
    Pattern("buildkite_token", rb"\bbk[a-z]{2}_[0-9a-f]{40}\b"),
    Pattern("circleci_token", rb"\bCCI(?:PAT|PRJ)_[A-Za-z0-9]{22}_[0-9a-f]{40}\b"),
    Pattern("url_password", rb"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@\"'<>\[]*:([^\s/@\"'<>]+)@", _is_value),
    Pattern(
        "url_password",
        # In the URL of a database a password may contain a slash.
        rb"\b(?:postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|amqps?)(?:\+[a-z0-9]+)?://[^\s/:@\"'<>\[]*:([^\s@\"'<>]+)@",
        _is_value,
    ),
    Pattern("url_password", rb"\b(?:https?|git)://([^\s/:@\"'<>\[]{20,})@", _is_mixed),
    Pattern(
        "curl_password", rb"\bcurl\b[^\n]*?[ \t](?:-u|--user|--proxy-user)[ =]?[\"']?[^\s:\"']+:([^\s\"']+)", _is_value
    ),
    Pattern(
        "authorization",
        rb"(?i)\bauthorization\\?[\"']?[ \t]*[:=][ \t]*\\?[\"']?(?:(?:bearer|basic|token|apikey)[ \t]+)?"
        rb"([^\s\"',;\\]+)",
        _is_credential,
    ),
    Pattern("authorization", rb"\b_auth[ \t]*=[ \t]*[\"']?([A-Za-z0-9+/]{8,}={0,2})"),
    Pattern("authorization", rb"\\?\"(?:auth|identitytoken)\\?\"[ \t]*:[ \t]*\\?\"([A-Za-z0-9+/_-]{12,}={0,2})"),
    Pattern("npm_token", rb"\b_authToken[ \t]*=[ \t]*[\"']?([A-Za-z0-9_=/+.-]{8,})"),
    Pattern(
        # libpq's password file: host:port:database:user:password.
        "password",
        rb"(?m)^(?:[A-Za-z0-9.*-]+|\[[0-9a-f:]+\]):(?:[0-9]{4,5}|\*):[\w.*-]+:[\w.*-]+:([^\s:]{4,})$",
        _is_value,
    ),
    Pattern("presigned_url", rb"(?i:\bX-(?:Amz|Goog)-Signature=)([0-9a-fA-F]{64,})"),
    Pattern("bearer", rb"\b(?i:bearer)[ \t]+([A-Za-z0-9._~+/-]{10,}=*)", _is_bearer),
    Pattern(
        "session_cookie",
        rb"(?i)\b(?:PHPSESSID|JSESSIONID|ASP\.NET_SessionId|connect\.sid|laravel_session|_gitlab_session)=([^\s;,\"']{16,})",
    ),
    # Any random-looking value of a cookie; of `Set-Cookie` only the first, because its attributes follow.
    Pattern(
        "session_cookie", rb"(?im)(?:^|[^-a-z])cookie\\?[\"']?[ \t]*:[ \t]*\\?[\"']?(?:[^\n;]*;[ \t]*)*?" + _COOKIE
    ),
    Pattern("session_cookie", rb"(?i)\bset-cookie\\?[\"']?[ \t]*:[ \t]*\\?[\"']?" + _COOKIE),
)
FORMS: tuple[Pattern, ...] = tuple(map(_marked_off, _FORMS))
"""In the order in which they are tried."""
