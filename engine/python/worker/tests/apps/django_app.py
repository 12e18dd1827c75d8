"""A Django project in one file, for test_frameworks.py."""

import os

import django
from django.conf import settings
from django.http import FileResponse, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path

settings.configure(
    SECRET_KEY="test",
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    MIDDLEWARE=["django.middleware.security.SecurityMiddleware", "django.middleware.common.CommonMiddleware"],
    SECURE_SSL_REDIRECT=os.environ.get("SSL_REDIRECT") == "1",
)
django.setup()


def json_view(request):
    return JsonResponse(
        {"path": request.path, "secure": request.is_secure(), "script": request.META.get("SCRIPT_NAME")}
    )


def upload(request):
    file = request.FILES["file"]
    return JsonResponse({"name": file.name, "size": file.size, "field": request.POST["field"]})


def stream(request):
    return StreamingHttpResponse(iter([b"a", b"b"]))


def file(request):
    return FileResponse(open(__file__, "rb"))


def cookie(request):
    response = HttpResponse("ok")
    response.set_cookie("name", "value")
    return response


async def async_view(request):
    return HttpResponse("async")


upload.csrf_exempt = True
urlpatterns = [
    path("json", json_view),
    path("upload", upload),
    path("stream", stream),
    path("file", file),
    path("cookie", cookie),
    path("async", async_view),
]

from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402

wsgi = get_wsgi_application()
asgi = get_asgi_application()
