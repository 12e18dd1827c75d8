"""The ASGI application of the project."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_settings.settings")
application = get_asgi_application()
