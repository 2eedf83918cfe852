// Load generator with a client that is nobody's own: Go's gRPC and generated stubs, as Debian
// packages them, for this broker and for etcd. The same loop, as many callers as are to be in
// flight, one connection, messages of as many bytes.
//
// Flow     each caller sends its next write when the last one is answered. Prints one JSON line,
// as load_main.c does.
// Errors   any status but OK ends the run and is in "failure"; the program exits 1.
// Usage    load_go ENDPOINT IN_FLIGHT SECONDS PREFIX; ENDPOINT etcd:HOST:PORT for etcd.
// TLS: the environment names CKPT_CA, CKPT_CERT and CKPT_KEY, as for ckptctl.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io/ioutil"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ckpt "ckpt/v1"
	"etcdserverpb"

	"github.com/golang/protobuf/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

const (
	nodes       = 4096 // as load_nodes.h has them
	callTimeout = 30 * time.Second
	gpuMemory   = 640 << 30
)

type result struct {
	InFlight int     `json:"in_flight"`
	Calls    int     `json:"calls"`
	Failed   uint64  `json:"failed"`
	Seconds  float64 `json:"seconds"`
	PerS     float64 `json:"per_s"`
	P50us    uint64  `json:"p50_us"`
	P99us    uint64  `json:"p99_us"`
	MaxUs    uint64  `json:"max_us"`
	Failure  string  `json:"failure"`
}

// One write: the number makes it another one than all before.
type write func(ctx context.Context, number uint64) error

func die(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "load_go:", err)
		os.Exit(2)
	}
}

func security() grpc.DialOption {
	ca := os.Getenv("CKPT_CA")
	if ca == "" {
		return grpc.WithInsecure()
	}
	pem, err := ioutil.ReadFile(ca)
	die(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	own, err := tls.LoadX509KeyPair(os.Getenv("CKPT_CERT"), os.Getenv("CKPT_KEY"))
	die(err)
	return grpc.WithTransportCredentials(credentials.NewTLS(
		&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}))
}

func registration(prefix string, number uint64) *ckpt.RegisterAllocationRequest {
	id := fmt.Sprintf("%s-%d", prefix, number)
	return &ckpt.RegisterAllocationRequest{RequestId: "r-" + id, Spec: &ckpt.AllocationSpec{
		AllocationId: id, Tenant: "physics", Project: "bench", Vcluster: "hpc", Owner: "load",
		Nodes: []*ckpt.NodeShare{{NodeId: fmt.Sprintf("node-%d", number%nodes), GpuCount: 8,
			GpuMemoryUsedBytes: gpuMemory}}}}
}

func toBroker(connection *grpc.ClientConn, prefix string) write {
	client := ckpt.NewBrokerServiceClient(connection)
	return func(ctx context.Context, number uint64) error {
		_, err := client.RegisterAllocation(ctx, registration(prefix, number))
		return err
	}
}

// As long as the registration would be; both fields are shorter than 128 bytes.
func toEtcd(connection *grpc.ClientConn, prefix string) write {
	client := etcdserverpb.NewKVClient(connection)
	return func(ctx context.Context, number uint64) error {
		request := registration(prefix, number)
		key := request.RequestId
		value := strings.Repeat("v", proto.Size(request)-len(key)-4)
		_, err := client.Put(ctx, &etcdserverpb.PutRequest{Key: []byte(key), Value: []byte(value)})
		return err
	}
}

type load struct {
	send    write
	end     time.Time
	next    uint64
	failed  uint64
	failure sync.Once
	text    string
}

func (l *load) call(latencies *[]uint64) {
	for time.Now().Before(l.end) && atomic.LoadUint64(&l.failed) == 0 {
		number := atomic.AddUint64(&l.next, 1) - 1
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		began := time.Now()
		err := l.send(ctx, number)
		took := time.Since(began)
		cancel()
		if err != nil {
			atomic.AddUint64(&l.failed, 1)
			l.failure.Do(func() { l.text = err.Error() })
			return
		}
		*latencies = append(*latencies, uint64(took/time.Microsecond))
	}
}

func run(send write, inFlight int, length time.Duration) result {
	began := time.Now()
	l := &load{send: send, end: began.Add(length)}
	each := make([][]uint64, inFlight)
	var callers sync.WaitGroup
	for i := range each {
		callers.Add(1)
		go func(i int) {
			defer callers.Done()
			l.call(&each[i])
		}(i)
	}
	callers.Wait()
	took := time.Since(began).Seconds()
	var all []uint64
	for _, some := range each {
		all = append(all, some...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	found := result{InFlight: inFlight, Calls: len(all), Failed: l.failed, Seconds: took,
		PerS: float64(len(all)) / took, Failure: l.text}
	if len(all) > 0 {
		found.P50us = all[(len(all)-1)/2]
		found.P99us = all[(len(all)-1)*99/100]
		found.MaxUs = all[len(all)-1]
	}
	return found
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: load_go ENDPOINT IN_FLIGHT SECONDS PREFIX")
		os.Exit(2)
	}
	inFlight, err := strconv.Atoi(os.Args[2])
	die(err)
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	die(err)
	address := strings.TrimPrefix(os.Args[1], "etcd:")
	connection, err := grpc.Dial(address, security(), grpc.WithBlock())
	die(err)
	to := toBroker
	if address != os.Args[1] {
		to = toEtcd
	}
	found := run(to(connection, os.Args[4]), inFlight, time.Duration(seconds*float64(time.Second)))
	line, err := json.Marshal(found)
	die(err)
	fmt.Println(string(line))
	if found.Failed > 0 {
		os.Exit(1)
	}
}
