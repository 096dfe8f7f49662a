// Command object-check reads what Kubernetes and Docker Compose would read, as strictly as they do.
// `object-check objects` reads Kubernetes objects as YAML from standard input and prints the kind and
// the name of each. `object-check compose FILE` prints the services of a compose file. An unknown field
// or a value of the wrong type is an error.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "object-check:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "objects":
		return checkObjects(os.Stdin)
	case len(args) == 2 && args[0] == "compose":
		return checkCompose(args[1])
	default:
		return fmt.Errorf("usage: object-check objects | object-check compose FILE")
	}
}

func checkObjects(input io.Reader) error {
	scheme := runtime.NewScheme()
	known := []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme}
	for _, add := range known {
		if err := add(scheme); err != nil {
			return err
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(input))
	for {
		document, err := documents.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		object, kind, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return err
		}
		named, ok := object.(interface{ GetName() string })
		if !ok {
			return fmt.Errorf("%s has no name", kind)
		}
		fmt.Println(kind.Kind, named.GetName())
	}
}

func checkCompose(path string) error {
	options, err := cli.NewProjectOptions([]string{path}, cli.WithOsEnv)
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	for _, name := range project.ServiceNames() {
		fmt.Println(name)
	}
	return nil
}
