"""What looks like a secret, in one table: secrets do not belong in a log or a workflow file.

The journal replaces what looks like a secret before it is written; a workflow file refuses it. High-confidence
shapes only: a false match makes the log harder to read, and a secret of no known shape cannot be distinguished
from any other word. Full arguments are kept, where they are needed, as private content.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache

HIDDEN = "[hidden]"

# Tokens recognisable by their shape: the name, the hints of which one must occur (in lower case), and the
# shape. A shape is compiled only once one of its hints occurs; most texts contain none.
TOKENS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "a private key",
        ("private key",),
        r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?:.*?-----END [A-Z0-9 ]*PRIVATE KEY-----|.*$)",
    ),
    ("a GitHub token", ("gh",), r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
    ("a GitHub token", ("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
    ("a GitLab token", ("glpat-",), r"\bglpat-[A-Za-z0-9_-]{16,}"),
    ("a Slack token", ("xox", "xapp-"), r"\b(?:xox[abeposr]-[\w-]{10,}|xapp-[\w-]{20,})"),
    ("a Slack webhook", ("hooks.slack.com",), r"hooks\.slack\.com/services/T\w+/B\w+/\w+"),
    ("an AWS key", ("akia", "asia"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("a Google key", ("aiza", "ya29."), r"\b(?:AIza[\w-]{30,}|ya29\.[\w-]{20,})"),
    ("an API key", ("k-", "k_"), r"\b[srp]k[-_](?:live|test|proj|ant|or|svcacct)[-_][\w-]{10,}"),
    ("an API key", ("sk-",), r"\bsk-[A-Za-z0-9]{32,}"),
    ("a token", ("eyj",), r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    (
        "a token",
        ("npm_", "pypi-", "hf_", "dop_v1_", "shpat_"),
        r"\b(?:npm_|pypi-|hf_|dop_v1_|shpat_)[\w-]{20,}",
    ),
    ("a mail service key", ("sg.",), r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    ("a bot token", (":aa",), r"\b\d{8,10}:AA[\w-]{33}(?![\w-])"),
)

# Runs are bounded, so that a long line costs its length and not the square of it.
_NAME = (
    r"[\w.-]{0,60}(?:(?<!by)(?<!com)pass(?!es|ed|ing|iv|age|enger|port|[-_]?through)(?:word|wd|phrase|code)?"
    r"|(?<![a-z])pwd?(?![a-z])|secret|(?<!max[-_])(?<!num[-_])token(?!iz)|(?:api|access|auth|account)[-_]?key"
    r"|auth(?!or|entic)|credentials?|private[-_]?key)"
    r"(?![\w.-]{0,60}[-_](?:file|fd|path|dir|stdin|type|mode|ttl|length|policy|url|uri|count|sock)(?!\w))[\w.-]{0,60}"
)
_QUOTED = r"'\"'\"'[^'\"]*'\"'\"'|\\\"[^\"\\]*\\\"|\"[^\"]*\"|'[^']*'"
_PLAIN = r"(?:[^\s|;&\"'\\]|\\.|\"[^\"\s|;&]*\"|'[^'\s|;&]*')+"
_VALUE = rf"(?:{_QUOTED}|{_PLAIN})"
# A word that is not an option, not a redirection and not empty.
_GIVEN = rf"(?![-<>]|''|\"\"){_VALUE}"
# All that is left of one simple command.
_REST = rf"(?:{_QUOTED}|[^|;&\n\"'])+"
# The words of one simple command up to the option in question, and options before a word.
_WORDS = r"[^|;&\n]{0,200}?\s"
_OPTIONS = r"(?:-\S+[ \t]+){0,9}"

# Options that are a password, a token or a key only with these programs.
_OF_PROGRAMS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("mysql", "mariadb"), r"mysql|mysqldump|mysqladmin|mariadb", "-p(?![ \t])"),
    (("sshpass",), "sshpass", "-p"),
    (
        ("login", "twine"),
        r"(?:docker|podman|helm)\s+(?:registry\s+)?login|az(?:\s+(?!login)[\w-]+){0,5}\s+login|oc\s+login|twine",
        "-p",
    ),
    (("mongo", "mycli", "cqlsh", "cypher", "snowsql"), r"mongo\w*|mycli|cqlsh|cypher-shell|snowsql", "-p"),
    (("beeline", "ncftp", "rdesktop", "rabbitmqadmin"), r"beeline|ncftp\w*|rdesktop|rabbitmqadmin", "-p"),
    (("az ",), r"az\s+(?:sql|mysql|postgres|synapse)", "-p"),
    (("login",), r"(?:cf|oras|crane\s+auth)\s+login", "-p"),
    (("racadm", "altool", "yt-dlp", "youtube-dl"), r"racadm|altool|yt-dlp|youtube-dl", "-p"),
    (("p4 ",), "p4", "-P"),
    (("kadmin",), r"kadmin(?:\.local)?", "-w"),
    (("codecov", "influx"), "codecov|influx", "-t"),
    (("gem ",), r"gem\s+push", "(?:--key|-k)"),
    (("nuget", "openai"), r"dotnet\s+nuget\s+push|openai", "-k"),
    (("llm ",), r"llm\s+keys\s+set", "--value"),
    (("kaggle",), r"kaggle\s+config\s+set\b(?=[^|;&\n]{0,200}\bkey\b)", "-v"),
    (("databricks",), r"databricks\s+secrets", "--string-value"),
    (("kubectl",), r"kubectl\b[^|;&\n]{0,100}?\spatch\s+secrets?", "(?:--patch|-p)"),
    (("poetry", "keychain", "useradd", "usermod"), r"poetry\s+publish|unlock-keychain|user(?:add|mod)", "-p"),
    (
        ("sqlcmd", "bcp", "isql", "ipmitool", "mosquitto"),
        r"sqlcmd|bcp|isql|ipmitool|mosquitto_(?:pub|sub)",
        "-P",
    ),
    (("zip",), r"(?:un)?zip", "-P"),
    (("7z", "rar"), r"7z[ar]?|(?:un)?rar", "-h?p(?![ \t])"),
    (("ssh-keygen",), "ssh-keygen", "-N"),
    (("ssh-keygen",), "ssh-keygen", "-P"),
    (("ldap",), r"ldap\w+", "-w"),
    (("ldappasswd",), "ldappasswd", "-[as]"),
    (("security",), "security", "-w"),
    (("snmp",), r"snmp\w+", "-c"),
    (("snmp",), r"snmp\w+", "-A"),
    (("snmp",), r"snmp\w+", "-X"),
    (("openssl",), "openssl", "(?:-k|-K|-hmac)(?![a-z])"),
    (("openssl",), "openssl", "-macopt[ \t]+(?:hex)?key:"),
    (("uv", "vercel", "doctl"), r"uv\s+publish|vercel|doctl\s+auth\s+init", "-t"),
    (("netlify",), "netlify", "-a"),
    (("gitlab-runner",), "gitlab-runner", "-r"),
    (("gh",), r"gh\s+secret\s+set", "(?:-b|--body)"),
    (("keyvault",), r"az\s+keyvault\s+secret\s+set", "--value"),
    (("securestring",), r"aws\s+ssm\s+put-parameter\b(?=[^|;&\n]{0,300}SecureString)", "--value"),
    (("xfreerdp", "signtool"), "xfreerdp3?|signtool", "/p:?"),
    (("caddy",), r"caddy\s+hash-password", "--plaintext"),
)

# Commands whose next word is a password, a token or a key.
_NEXT_WORD: tuple[tuple[tuple[str, ...], str], ...] = (
    (("login",), r"(?:cargo|wandb)\s+login"),
    (("vault",), r"vault\s+login"),
    (("bw ",), r"bw\s+(?:unlock|login[ \t]+[^\s-]\S*)"),
    (("snyk", "ngrok"), r"snyk\s+auth|ngrok\s+(?:config\s+add-)?authtoken"),
    (("rclone",), r"rclone\s+obscure"),
    (("rclone",), rf"rclone\s+config\s+(?:create|update)\b{_WORDS}(?:\w*secret\w*|pass|\w*token)"),
    (("ansible-vault",), r"ansible-vault\s+encrypt_string"),
    (("rabbitmqctl",), r"rabbitmqctl\s+(?:add_user|change_password)[ \t]+\S+"),
    (("drush",), r"drush\s+(?:upwd|user:password)[ \t]+\S+"),
    (("mosquitto_passwd",), r"mosquitto_passwd[ \t]+-b[ \t]+\S+[ \t]+\S+"),
    (("wpa_passphrase",), r"wpa_passphrase[ \t]+\S+"),
    (("mysqladmin",), rf"mysqladmin\b{_WORDS}password"),
    (("nmcli",), rf"nmcli\b{_WORDS}(?:password|\S{{0,60}}\.psk)"),
    (("wpa_cli",), rf"wpa_cli\b{_WORDS}psk"),
    (("mc ",), r"mc\s+(?:alias\s+set|config\s+host\s+add)[ \t]+\S+[ \t]+\S+[ \t]+\S+"),
    (("env:set", "set-env"), r"(?:netlify\s+env:set|cf\s+set-env[ \t]+\S+)[ \t]+\S+"),
    (("cf auth",), r"cf\s+auth[ \t]+\S+"),
    (("user-secrets",), r"user-secrets\s+set[ \t]+\S+"),
    (("vault",), r"vault\s+token\s+(?:revoke|lookup|renew)"),
    (("consul",), r"consul\s+acl\s+set-agent-token[ \t]+\S+"),
    (("neo4j",), r"neo4j-admin\b[^|;&\n]{0,60}?\sset-initial-password"),
    (("securestring",), r"(?i:ConvertTo-SecureString)"),
    (("cloudflared",), r"cloudflared\s+service\s+install"),
    (("steamcmd",), rf"steamcmd\b{_WORDS}\+login[ \t]+[^\s+]\S*(?=[ \t]+[^+])"),
    (("http-basic",), r"config[ \t]+http-basic\.\S+[ \t]+\S+"),
    (("passwd",), r"(?:openssl\s+passwd|mkpasswd)(?:[ \t]+-(?:m|s|S|R|salt|method)[ \t]+\S+){0,3}"),
    (("smbclient",), r"smbclient[ \t]+//\S+"),
    (("redis-cli",), r"(?i:redis-cli\b[^|;&\n]{0,200}?\sauth(?:[ \t]+[^\s-]\S*(?=[ \t]+[^\s|;&]))?)"),
    (("setenv", "set -"), rf"(?:setenv|set[ \t]+-\w+)[ \t]+(?i:{_NAME})"),
    (("login",), r"login[ \t]+\S+\s+password"),
)

# Programs that read a password, or something to be kept secret, from their input.
_ASKING = (
    r"(?:sudo\b[^|;&\n]{0,200}?\s-\w{0,9}S\b|(?:sudo\s+)?(?:(?:ch|smb|vnc)?passwd|su|kinit|cryptsetup)\b(?!-)"
    r"|[^|;&\n<]{0,200}?(?:--password-stdin|--with-token|--passphrase-fd[ =]0)"
    r"|(?:docker|podman)\s+secret\s+create\b|gcloud\s+secrets\b|gh\s+secret\s+set\b|wrangler\s+secret\s+put\b"
    r"|vercel\s+env\s+add\b|pass\s+insert\b|keepassxc-cli\b|lpass\s+add\b|secret-tool\s+store\b"
    r"|fly(?:ctl)?\s+secrets\s+import\b)"
)
_ASKING_HINTS = (
    *("sudo", "passwd", "kinit", "cryptsetup", "--p", "--with-token", "su"),
    *("secret", "vercel", "pass", "keepass"),
)

# A secret that follows what announces it: the hints, and a shape whose first group stays.
ANNOUNCED: tuple[tuple[tuple[str, ...], str], ...] = (
    # Passed to a store of secrets, or to a program that asks for one; before any part of it is hidden
    (("vault",), rf"(\bvault\s+(?:kv\s+(?:put|patch)|write)[ \t]+{_OPTIONS}\S+[ \t]+){_REST}"),
    (("fly", "travis"), rf"(\b(?:fly(?:ctl)?\s+secrets\s+set|travis\s+encrypt)[ \t]+){_REST}"),
    (
        ("heroku", "dokku", "setenv", "convox", "supabase", "railway", "firebase"),
        (
            r"(\b(?:(?:heroku|dokku)\s+(?:-\S+\s+\S+\s+){0,3}config:(?:set|add)|eb\s+setenv|convox\s+env\s+set|supabase\s+secrets\s+set"
            rf"|railway\s+variables\s+(?:--)?set|firebase\s+functions:config:set)[ \t]+){_REST}"
        ),
    ),
    (("az ",), rf"(\baz\s[^|;&\n]{{0,200}}?\sappsettings\s+set\b{_WORDS}--settings[ \t]+){_REST}"),
    # The format announces what comes behind it.
    (
        ("printf",),
        (
            rf"(?i)(\bprintf[ \t]+(?:-v[ \t]+\w+[ \t]+)?{_OPTIONS}(?:\$?'[^'\n]{{0,120}}?{_NAME}[^'\w]{{1,4}}%[^']*'"
            rf"|\"[^\"\n]{{0,120}}?{_NAME}[^\"\w]{{1,4}}%[^\"]*\"|{_NAME}=%\S*)[ \t]+)"
            rf"{_GIVEN}(?:[ \t]+{_GIVEN})*"
        ),
    ),
    (
        ("printf",),
        rf"(?i)(\bprintf[ \t]+{_OPTIONS}[\"']%s[^\"'\w]{{1,4}}%s[^\"']{{0,9}}[\"'][ \t]+{_NAME}[ \t]+){_GIVEN}",
    ),
    (
        ("net ", "net.exe"),
        (
            r"(?i)(\bnet(?:\.exe)?\s+use[ \t]+(?:(?:\*|\w:)[ \t]+)?"
            r"(?:\"(?:\\\\|//)[^\"]+\"|[\"']?(?:\\\\|//)\S+)[ \t]+(?:/\S+[ \t]+){0,5})"
            rf"(?![/*]){_GIVEN}"
        ),
    ),
    (
        ("net ", "net.exe"),
        rf"(?i)((?:^|[|;&(\n])\s*net(?:\.exe)?\s+user[ \t]+[^\s/]\S*[ \t]+)(?![/*]){_GIVEN}",
    ),
    (
        ("pulumi",),
        rf"(\bpulumi\s+config\s+set\b(?=[^|;&\n]{{0,200}}--secret)[ \t]+{_OPTIONS}[^\s-]\S*[ \t]+{_OPTIONS}){_GIVEN}",
    ),
    (
        _ASKING_HINTS,
        rf"(\b(?:echo|printf|yes)[ \t]+)(?:{_QUOTED}|[^|;&\n\"']){{1,500}}?(?=\s*\|\s*{_ASKING})",
    ),
    (("<<<",), rf"(\b{_ASKING}[^|;&\n<]{{0,200}}<<<\s*){_VALUE}"),
    (("<<<",), rf"(\bread\b[^|;&\n<]{{0,200}}\s(?i:{_NAME})[ \t]*<<<\s*){_VALUE}"),
    (
        ("<<",),
        rf"(?s)(\b{_ASKING}[^|;&\n<]{{0,200}}<<-?[ \t]*[\"']?(?P<end>\w+)[\"']?[ \t]*\n).*?(?=\n\s*(?P=end)\b|\Z)",
    ),
    # NAME=…, name: …, --name …
    (
        ("pass", "secret", "token", "key", "auth", "cred", "pw"),
        rf"(?i)((?:^|[\s\"'&?;,:/(\[{{#=\\]){_NAME}(?:\\?[\"']\])?[ \t]*=[ \t]*)(?:\([^)\n]{{0,300}}\)|{_VALUE})",
    ),
    (
        ("pass", "secret", "token", "key", "cred", "pwd"),
        (
            r"(?i)((?:(?<![a-z])(?:pass(?:word|wd|phrase)|secret|(?:access|auth|bearer|refresh)?[-_]?token"
            r"|(?:api|secret|private|subscription)[-_]?key|credentials?)|(?<=[-_])pass)\\?[\"']?:\s+\\?[\"']?)"
            r"(?!\.\*)[^\s\"',;\\]{6,}"
        ),
    ),
    (
        ("pass", "secret", "token", "key", "pwd"),
        (
            r"(?i)((?<![\w-])[\w-]{0,60}(?:pass(?:word|wd|phrase)?|pwd|secret|token|(?:api|access)[-_]?key)"
            r"\\?[\"']?\s*(?::|=>)\s*\\?[\"'])[^\s\"'\\][^\"'\\\n]*"
        ),
    ),
    (
        ("pass", "secret", "token", "key", "auth", "cred", "pw"),
        rf"(?i)((?<![\w-])--?(?!-|(?:no|ask|prompt|skip|disable|enable|require|show|hide|with)[-_]){_NAME}\s+){_GIVEN}",
    ),
    (
        ("config", "configure", "npm"),
        (
            r"(?i)(\b(?:config(?:ure)?|npm)\s+(?:set\s+)?(?:--?[\w-]+\s+){0,9}"
            rf"(?:[^\s:]*:|[\"']\S{{0,120}}?\])?{_NAME}[\"']?[ \t]+){_VALUE}"
        ),
    ),
    (
        ("_key=",),
        (
            r"((?<![\w$])(?![A-Z0-9_]{0,60}(?:PUBLIC|PRIMARY|FOREIGN|SORT|CACHE|PARTITION|GROUP|HOST|INDEX|ROW|HASH|ORDER)"
            r"_KEY=)[A-Z][A-Z0-9_]{0,60}_KEY=[\"']?)(?![/~.$])[^\s|;&\"']{8,}"
        ),
    ),
    (("k-", "k_"), r"((?<![\w-])[srp]k[-_])[A-Za-z0-9_-]{16,}"),
    (("sonar.login",), rf"(-Dsonar\.login=){_VALUE}"),
    # Headers, cookies, addresses
    (
        ("authorization", "x-api-key", "cookie"),
        (
            r"(?i)([\"'](?:authorization|x-api-key|(?:set-)?cookie)(?:\\?[\"'])?\s*:\s*(?:\\?[\"'])?(?:(?:bearer|basic|token|digest|apikey)\s+)?)"
            r"[^\"'\n]+"
        ),
    ),
    (
        ("authorization", "x-api-key", "cookie"),
        r"(?i)(\b(?:authorization|x-api-key|cookie)\s*:\s*[\"']?(?:bearer\s+|basic\s+|token\s+)?)(?!\[|(?:bearer|basic|token|digest|apikey)\s)[^\s\"']+",
    ),
    (
        ("-h", "--header"),
        r"(?i)((?:-H|--header)[\s=]*[\"'](?!\[)[\w-]{0,60}(?:token|key|secret|passw\w{1,4})[\w-]{0,60}:)[^\s\"'\[][^\"'\n]{5,}",
    ),
    (("bearer",), r"(?i)(\bbearer\s+)[\w.~+/-]{16,}=*"),
    (("--cookie", "-b"), rf"(\bcurl\b{_WORDS}(?:--cookie[\s=]\s*|-b\s*))(?=[\"']?[^\s\"'=]+=){_VALUE}"),
    (("key=",), r"(?i)((?:Account|SharedAccess|Access)Key=)[A-Za-z0-9+/=]{20,}"),
    (("key=", "sig"), r"(?i)([?&](?:key|sig|signature|x-amz-(?:signature|credential))=)[^\s&\"'#]{12,}"),
    (("://",), r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)"),
    (("://",), r"(\bhttps?://)[^\s/:@]{20,}(?=@)"),
    (("curl",), rf"(\bcurl\b{_WORDS}(?:-x|--proxy)[\s=]\s*(?:\w+://)?[^\s:@]+:)[^\s@]+(?=@)"),
    (("curl",), rf"(\bcurl\b{_WORDS}-\w{{0,9}}[uU][ \t]*[\"']?[^\s:\"']+:)[^\s\"']+"),
    (("-u", "user"), r"((?:^|\s)(?:-u\s*|--(?:proxy-)?user[\s=]\s*)[^\s:]+:)(?!\d+\b)\S+"),
    (("curl",), rf"(\bcurl\b{_WORDS}(?:-E|--(?:proxy-)?cert)[\s=]*[^\s:]+:)[^\s|;&]+"),
    (("creds",), r"((?:^|\s)--(?:src-|dest-)?creds[\s=]\s*[\"']?[^\s:]+:)[^\s\"']+"),
    (("transmission-remote",), rf"(\btransmission-remote\b{_WORDS}-n[ \t]*[\"']?[^\s:]+:)[^\s\"']+"),
    (
        ("bundle",),
        r"(\bbundle\s+config\s+(?:set\s+)?(?:--\S+\s+){0,3}[^\s:]+\.[^\s:]+\s+[\"']?[^\s:]+:)(?!//)[^\s\"']+",
    ),
    (("pserver",), r"(:pserver:[^\s:@]+:)[^\s@]+(?=@)"),
    (("ftp",), r"(?s)(\bftp\b.{0,300}?\buser[ \t]+[^\s\"']+[ \t]+)[^\s\"']+"),
    (
        ("expect",),
        r"(?i)((?:assword|passphrase)[^\n]{0,80}?\bsend[ \t]+(?:--[ \t]+)?\\?[\"']?)[^\s\"'\\]+(?=\\+[rn])",
    ),
    (("http", "xh"), rf"(\b(?:https?|xh)\b{_WORDS}-a[ \t]*[^\s:]+:)\S+"),
    (("redis-cli",), r"(\bredis-cli\b(?:\s+-\S+(?:\s+[^\s-]\S*)?){0,20}?\s+-a\s*)[^\s|;&]+"),
    (
        ("smbclient", "rpcclient", "net"),
        rf"(\b(?:smbclient|rpcclient|net)\b{_WORDS}-U\s*[\"']?[^\s%\"']+%)[^\s|;&\"']+",
    ),
    (("lftp",), rf"(\blftp\b{_WORDS}-u\s*[^\s,]+,)[^\s|;&]+"),
    (("sqlplus", "mpdp", "xpdp"), rf"(\b(?:sqlplus|impdp|expdp)\b{_WORDS}[^\s/]+/)[^\s@|;&]+"),
    (
        (".pgpass",),
        r"((?:^|[\s\"'])[^\s:\"']{1,200}:(?:\d{1,5}|\*):[^\s:\"']{1,200}:[^\s:\"']{1,200}:)[^\s\"']+",
    ),
    # SQL and Python
    (("identified",), rf"(?i)(\bidentified\s+(?:with\s+\S+\s+)?by\s+(?:password\s+)?)(?:{_QUOTED})"),
    (("password",), rf"(?i)(\bpassword\()(?:{_QUOTED})"),
    (("secret",), rf"(?i)(\bcreate\s[^;\n]{{0,60}}?\bsecret\b[^;\n]{{0,300}}?\bsecret\s+)(?:{_QUOTED})"),
    (("password",), rf"(?i)(\b(?:user|role)\b[^;\n]{{0,200}}?\bpassword\s+)(?:{_QUOTED})"),
    (
        ("set_password(", "create_superuser(", "db.auth("),
        r"(\b(?:set_password|create_superuser|db\.auth)\()[^)\n]{1,300}",
    ),
    # The last word is the password: htpasswd -b FILE USER PASSWORD, htpasswd -nb USER PASSWORD
    (
        ("htpasswd",),
        rf"(\bhtpasswd\s+(?:-\S+\s+){{0,5}}-\w{{0,9}}b\w{{0,9}}\s+(?:-\S+\s+){{0,5}}(?:[^\s-]\S*\s+){{1,2}}){_VALUE}(?=\s*(?:$|[|;&\n]))",
    ),
    (("--from-literal",), r"(--from-literal[\s=]\s*[\"']?[^\s=]+=)[^\s\"']+"),
    (("pass:",), r"((?:^|\s)-pass(?:in|out|word)?\s+[\"']?pass:)[^\s\"']+"),
    *(
        (hints, rf"(\b(?:{programs})(?:\b|(?=\s)){_WORDS}(?:{option})(?:[ \t]*=[ \t]*|[ \t]*)){_GIVEN}")
        for hints, programs, option in _OF_PROGRAMS
    ),
    *((hints, rf"(\b(?:{words})[ \t]+{_OPTIONS}){_GIVEN}") for hints, words in _NEXT_WORD),
)

# What a workflow file refuses in addition; the journal has rules of its own for these.
_NAMED = (
    r"pass(?:word|wd|phrase)|secret|(?:access|auth|bearer|refresh)?[-_ ]?token|api[-_ ]?key|private[-_ ]?key"
)
_PLACEHOLDER = r"(?:[*x.…•-]+|\$|<|\{|\[|%|none\b|null\b|true\b|false\b|hidden\b|redacted\b)"
NAMED: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("a password in a URL", ("://",), r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:[^\s/@]+@"),
    ("an account key", ("accountkey=", "accesskey="), r"(?i)(?:Account|SharedAccess)Key=[A-Za-z0-9+/=]{20,}"),
    ("an authorization header", ("authorization",), r"(?i)\bauthorization\s*:\s*\S"),
    ("a bearer token", ("bearer",), r"(?i)\bbearer\s+[\w.~+/-]{16,}"),
    (
        "a password or token",
        ("pass", "secret", "token", "key"),
        rf"(?i)(?<![a-z])(?:{_NAMED})[\"']?\s*[=:]\s*[\"']?(?!{_PLACEHOLDER})[^\s\"',;]{{6,}}",
    ),
)


@cache
def compiled(shape: str) -> re.Pattern[str]:
    return re.compile(shape)


_REPLACED = (
    *((hints, shape, rf"\g<1>{HIDDEN}") for hints, shape in ANNOUNCED),
    *((hints, shape, HIDDEN) for _, hints, shape in TOKENS),
)
"""The shapes of secrets, in the order in which they are replaced, with what is put in their place."""


def _places() -> dict[str, list[int]]:
    """Return the places of its shapes in that order for each hint, the short hints first."""
    hints = {hint for *_, hints, _shape in (*ANNOUNCED, *TOKENS, *NAMED) for hint in hints}
    places: dict[str, list[int]] = {hint: [] for hint in sorted(hints, key=len)}
    for place, (given, _, _) in enumerate(_REPLACED):
        for hint in given:
            places[hint].append(place)
    return places


_PLACES = _places()
_HINTS, _LENGTHS = list(_PLACES), [len(hint) for hint in _PLACES]


def _hints_in(text: str) -> set[str]:
    """Return the hints that occur in a text: a shape without any of its hints cannot be in it."""
    lower = text.lower()
    short_enough = bisect_right(_LENGTHS, len(lower))
    return {hint for hint in _HINTS[:short_enough] if hint in lower}


def redact(text: str) -> str:
    """Return this text without what looks like a secret."""
    for place in sorted({place for hint in _hints_in(text) for place in _PLACES[hint]}):
        _, shape, instead = _REPLACED[place]
        text = compiled(shape).sub(instead, text)
    return text


def secret_in(text: str) -> str:
    """Return what kind of secret this text seems to hold; empty if none."""
    found = _hints_in(text)
    for kind, hints, shape in (*TOKENS, *NAMED):
        if not found.isdisjoint(hints) and compiled(shape).search(text):
            return kind
    return ""
