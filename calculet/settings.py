"""All settings. What an installation may change comes from the environment and is listed in docs/settings.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import environ
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from calculet import environment
from calculet.environment import (
    read_choice,
    read_count,
    read_folders,
    read_names,
    read_switch,
    read_text,
    read_time_zone,
    refuse_unknown_names,
)
from calculet.installation import (
    SOCKET_NAME,
    InstallationError,
    folder_make,
    run_folder_choose,
    secret_key_read_or_make,
)

BASE_DIR = Path(__file__).resolve().parent.parent

refuse_unknown_names()

# ---- where things are kept ----------------------------------------------------------------------------------------
DATA_DIR = Path(read_text("CALCULET_DATA_DIR", str(BASE_DIR / "var"))).absolute()
KEY_DIR = Path(read_text("CALCULET_KEY_DIR", str(DATA_DIR / "keys"))).absolute()  # SSH keys come from here only
LANDING_DIR = Path(read_text("CALCULET_LANDING_DIR", str(DATA_DIR / "landing"))).absolute()  # packs arrive below
HAD_DIRS = read_folders("CALCULET_HAD_DIRS")  # folders that may be declared as already here are read in these only
ADOPT_DIRS = read_folders("CALCULET_ADOPT_DIRS")  # files that are here already are taken over from these only
ANCHOR_DIR = Path(read_text("CALCULET_ANCHOR_DIR", str(DATA_DIR / "anchors"))).absolute()
RUN_DIR = run_folder_choose(DATA_DIR)  # sockets, process ids, beat's schedule: nothing that must be kept
SECRET_KEY_FILE = DATA_DIR / "secret_key"
try:
    folder_make(DATA_DIR)
    SECRET_KEY = secret_key_read_or_make(SECRET_KEY_FILE)
except InstallationError as error:
    raise ImproperlyConfigured(str(error)) from error

# ---- database and broker ------------------------------------------------------------------------------------------
_SQLITE: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(DATA_DIR / "calculet.sqlite3")}
_DATABASE: dict[str, Any] = environ.Env().db_url("DATABASE_URL") if read_text("DATABASE_URL", "") else _SQLITE
DATABASES = {"default": _DATABASE}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",  # a transaction that reads and then writes must not fail half way
        "timeout": 20,  # seconds a writer waits for another
        # recursive_triggers: without it INSERT OR REPLACE deletes a row without asking the delete trigger.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA recursive_triggers=ON;",
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
BROKER_SOCKET = RUN_DIR / SOCKET_NAME
EMBEDDED_BROKER_URL = f"redis+socket://{BROKER_SOCKET}"
BROKER_URL = read_text("BROKER_URL", EMBEDDED_BROKER_URL)  # the default is the Valkey that `up` starts

# ---- web ----------------------------------------------------------------------------------------------------------
DEBUG = read_switch("CALCULET_DEBUG", default=False)  # tracebacks show settings to whoever looks
ALLOWED_HOSTS = read_names("CALCULET_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])  # names we answer to
CSRF_TRUSTED_ORIGINS = read_names("CALCULET_TRUSTED_ORIGINS", [])  # needed behind a proxy that ends TLS
HTTPS = read_switch("CALCULET_HTTPS", default=False)  # loopback has no TLS; turn on behind a proxy that has
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SESSION_COOKIE_AGE = read_count("CALCULET_SESSION_HOURS", 12) * 3600  # a working day, then sign in again
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000  # an order of packs names each of them in a field of its own
SECURE_REFERRER_POLICY = "same-origin"
ROOT_URLCONF = "calculet.urls"
WSGI_APPLICATION = "calculet.wsgi.application"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],  # data: for the marks in our own style sheet
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

INSTALLED_APPS = [
    "calculet",
    "calculet.people",
    "calculet.audit",
    "calculet.leases",
    "calculet.pages",
    "inventory",
    "transfers",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "template_partials",
    "axes",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",  # before sign-in: the sign-in page needs its style sheet
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "calculet.http.SignInMiddleware",  # no page or file without sign-in unless a view says so
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",  # must come last
]
CSRF_FAILURE_VIEW = "calculet.http.csrf_failure"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "calculet.pages.context.navigation",
            ],
            "builtins": ["template_partials.templatetags.partials", "calculet.pages.templatetags.shown"],
        },
    }
]

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True  # serves straight from the repository: no collectstatic step to forget

# ---- people -------------------------------------------------------------------------------------------------------
AUTH_USER_MODEL = "people.Person"
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "people:sign-in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "people:sign-in"
AXES_FAILURE_LIMIT = 10  # guesses before a pause; by name and address, so that nobody locks a colleague out
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_CALLABLE = "calculet.people.views.sign_in_paused"
AXES_ENABLE_ADMIN = False
AXES_ENABLE_ACCESS_FAILURE_LOG = False
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False

# ---- transfers ----------------------------------------------------------------------------------------------------
# When an attempt that gets no data is given up; a host's own setting comes first.
APPROVALS_NEEDED = read_count("CALCULET_APPROVALS", 1)  # people who approve a revision before it is in force
NO_DATA_TIMEOUT_SECONDS = read_count("CALCULET_NO_DATA_TIMEOUT_SECONDS", environment.NO_DATA_TIMEOUT_SECONDS)
LANES_AT_MOST = read_count("CALCULET_LANES_AT_MOST", environment.LANES_AT_MOST)  # steering and trials stay below

# ---- anchors of the audit log: secrets stand in files of mode 0600, and only their names here ----------------------
ANCHOR_KEY_FILE = read_text("CALCULET_ANCHOR_KEY_FILE", "")  # an Ed25519 private key: anchors are signed
ANCHOR_WEBHOOK_FILE = read_text("CALCULET_ANCHOR_WEBHOOK_FILE", "")  # an address, and a word for Authorization
ANCHOR_MAIL_FILE = read_text("CALCULET_ANCHOR_MAIL_FILE", "")  # a mail server as smtp+tls://USER:PASSWORD@HOST:PORT
ANCHOR_MAIL_TO = read_names("CALCULET_ANCHOR_MAIL_TO", [])  # who gets each anchor by mail
ANCHOR_MAIL_FROM = read_text("CALCULET_ANCHOR_MAIL_FROM", "calculet@localhost")

# ---- language and time --------------------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = "calculet.formats"
USE_I18N = True
USE_TZ = True
TIME_ZONE = read_time_zone("CALCULET_TIME_ZONE", "UTC")  # for pages without JavaScript; rows are always UTC

# ---- log ----------------------------------------------------------------------------------------------------------
LOG_LEVEL = read_choice("CALCULET_LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    # What paramiko meets is raised as an error of ours; its own lines would say it twice.
    "loggers": {"paramiko": {"level": "CRITICAL"}, "axes": {"level": "WARNING"}},
}
