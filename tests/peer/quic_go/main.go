// A client on quic-go: downloads and uploads over HTTP/3, all bodies verified. `cargo xtask peer` builds it.
//
//	client URL CA
//
// URL/files/N is a file of N bytes, and what is posted to URL/echo comes back at the end of the response.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go/http3"
)

// Half of them are downloads.
const requests = 200

// Concurrent requests on one connection.
const workers = 8

var sizes = []int{0, 1, 13, 1200, 4096, 65_536, 190_000, 1_048_576}

func body(size int) []byte {
	made := make([]byte, size)
	for at := range made {
		made[at] = byte((at*31 + size) % 251)
	}
	return made
}

func ask(client *http.Client, url string, number int) error {
	wanted := body(sizes[number/2%len(sizes)])
	var res *http.Response
	var err error
	if number%2 == 0 {
		res, err = client.Get(fmt.Sprintf("%s/files/%d", url, len(wanted)))
	} else {
		res, err = client.Post(url+"/echo", "application/octet-stream", bytes.NewReader(wanted))
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.Proto != "HTTP/3.0" || res.StatusCode != 200 {
		return fmt.Errorf("%s %s", res.Proto, res.Status)
	}
	if number%2 == 0 && len(got) != len(wanted) || !bytes.HasSuffix(got, wanted) {
		return fmt.Errorf("a body of %d bytes came as %d other bytes", len(wanted), len(got))
	}
	return nil
}

func main() {
	url := os.Args[1]
	pem, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.Close()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	numbers := make(chan int)
	var group sync.WaitGroup
	var lock sync.Mutex
	failed := 0
	for range workers {
		group.Go(func() {
			for number := range numbers {
				if err := ask(client, url, number); err != nil {
					lock.Lock()
					failed++
					fmt.Fprintf(os.Stderr, "request %d: %v\n", number, err)
					lock.Unlock()
				}
			}
		})
	}
	for number := range requests {
		numbers <- number
	}
	close(numbers)
	group.Wait()
	fmt.Printf("%d of %d requests succeeded\n", requests-failed, requests)
	if failed > 0 {
		os.Exit(1)
	}
}
