// A FastCGI application by Go's own library, for tests/e2e/responders.rs: `answer <network> <address>`.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
)

func answer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/hello" {
		// The fields that an application of one of the studies sets, those of the connection among them.
		w.Header().Set("Connection", "keep-alive")
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "12")
		fmt.Fprint(w, "Hello World\n")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.URL.Path == "/echo" {
		w.Write(body)
		return
	}
	env := fcgi.ProcessEnv(r)
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintf(w, "%s %s %s %s %s %s", r.Method, r.URL.Path, r.URL.RawQuery, r.Host, env["APP_MODE"], body)
}

func main() {
	listener, err := net.Listen(os.Args[1], os.Args[2])
	if err != nil {
		panic(err)
	}
	panic(fcgi.Serve(listener, http.HandlerFunc(answer)))
}
