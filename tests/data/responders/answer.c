/* A FastCGI application by the library of FastCGI's authors, for tests/e2e/responders.rs: `answer <:port or path>`. It
   serves one connection after the other, as most applications in C do. */
#include <fcgiapp.h>
#include <stdlib.h>
#include <string.h>

static const char *param(FCGX_Request *request, const char *name)
{
	const char *value = FCGX_GetParam(name, request->envp);
	return value ? value : "";
}

static void echo(FCGX_Request *request)
{
	char block[4096];
	int count;
	FCGX_PutS("Content-Type: application/octet-stream\r\n\r\n", request->out);
	while ((count = FCGX_GetStr(block, sizeof block, request->in)) > 0)
		FCGX_PutStr(block, count, request->out);
}

int main(int argc, char **argv)
{
	FCGX_Request request;
	if (argc != 2 || FCGX_Init() != 0)
		return 1;
	int listening = FCGX_OpenSocket(argv[1], 128);
	if (listening < 0 || FCGX_InitRequest(&request, listening, 0) != 0)
		return 1;
	while (FCGX_Accept_r(&request) == 0) {
		const char *path = param(&request, "PATH_INFO");
		if (strcmp(path, "/echo") == 0) {
			echo(&request);
		} else if (strcmp(path, "/hello") == 0) {
			FCGX_PutS("Content-Type: text/plain\r\nContent-Length: 12\r\n\r\nHello World\n", request.out);
		} else {
			char body[256] = "";
			FCGX_GetStr(body, sizeof body - 1, request.in);
			FCGX_FPrintF(request.err, "asked for %s\n", path);
			FCGX_FPrintF(request.out,
				"Status: 202 Accepted\r\nContent-Type: text/plain\r\n\r\n%s %s %s %s %s %s",
				param(&request, "REQUEST_METHOD"), path, param(&request, "QUERY_STRING"),
				param(&request, "HTTP_HOST"), param(&request, "APP_MODE"), body);
		}
		FCGX_Finish_r(&request);
	}
	return 0;
}
