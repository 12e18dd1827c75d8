"""The administration, and one page."""

from django.contrib import admin
from django.http import HttpResponse
from django.urls import path

from library.models import Book


def books(request):
    return HttpResponse("\n".join(book.title for book in Book.objects.order_by("title")), content_type="text/plain")


urlpatterns = [path("admin/", admin.site.urls), path("books/", books, name="books")]
