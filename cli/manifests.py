"""`zray manifests`: a cluster for Kubernetes, as text for `kubectl apply`."""

from __future__ import annotations

import base64
import re
import sys

import click

TEMPLATE = """\
# A zray cluster: a head without CPUs, and {nodes} nodes.  Written by `zray manifests`.
#   {command} | kubectl apply -f -
#   kubectl exec -it zray-head-0 -- python program.py          a program with zray.init(address="auto")
#   kubectl scale deployment zray-node --replicas 10
# The Secrets below let whoever has them join the cluster and run programs there: keep this text to yourself.  Each call
# draws new ones, and a running cluster keeps those that it began with.
apiVersion: v1
kind: Secret
metadata: {{name: zray-head}}
data:
  head.key: {head_key}
  token: {token}
---
apiVersion: v1
kind: Secret
metadata: {{name: zray-token}}
data:
  token: {token}
---
# An address that stays when the head's pod is another one: nodes find the new head there, and go on.
apiVersion: v1
kind: Service
metadata: {{name: zray-head}}
spec:
  selector: {{app: zray, part: head}}
  ports:
    - {{name: zray, port: {port}, targetPort: {port}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: zray-head}}
spec:
  serviceName: zray-head
  replicas: 1
  selector:
    matchLabels: {{app: zray, part: head}}
  template:
    metadata:
      labels: {{app: zray, part: head}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 30
      securityContext:
{user_of_pod}\
      initContainers:
        - name: keys  # once: the head keeps its keys, tokens and records in its volume
          image: {image}
          command:
            - sh
            - -c
            - |
              [ -e /state/cluster/head.key ] && exit
              mkdir -p -m 700 /state/new
              install -m 600 /keys/head.key /keys/token /state/new
              mv -T /state/new /state/cluster
          securityContext: &container
{rights}\
          volumeMounts:
            - {{name: state, mountPath: /state}}
            - {{name: keys, mountPath: /keys, readOnly: true}}
      containers:
        - name: head
          image: {image}
          command:
            - sh
            - -c
            - |
              exec zray start --head --host "$POD_IP" --port {port} --state-dir /state/cluster --num-cpus 0 \\
                --object-store-memory {head_store} --block
          env:
{variables}\
          ports:
            - {{containerPort: {port}}}
          readinessProbe:
            tcpSocket: {{port: {port}}}
            periodSeconds: 5
          livenessProbe:
{probe}\
          resources:
            requests: {{cpu: 250m, memory: {head_memory}}}
            limits: {{memory: {head_memory}}}
          securityContext: *container
          volumeMounts:
            - {{name: state, mountPath: /state}}
{writable}\
      volumes:
        - {{name: keys, secret: {{secretName: zray-head}}}}
{empty}\
        - {{name: shm, emptyDir: {{medium: Memory, sizeLimit: {head_store}}}}}
  volumeClaimTemplates:
    - metadata: {{name: state}}
      spec:
        accessModes: [ReadWriteOnce]
        resources: {{requests: {{storage: 1Gi}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: zray-node}}
spec:
  replicas: {nodes}
  selector:
    matchLabels: {{app: zray, part: node}}
  template:
    metadata:
      labels: {{app: zray, part: node}}
    spec:
      automountServiceAccountToken: false
      # SIGTERM drains: tasks end, and others take over the values.
      terminationGracePeriodSeconds: {grace}
      securityContext:
{user_of_pod}\
      containers:
        - name: node
          image: {image}
          # CPUs and memory are those of the limits below.
          command:
            - sh
            - -c
            - |
              exec zray start --address zray-head:{port} --host "$POD_IP" --object-store-memory {store} \\
                --token-stdin --block --drain {drain} </keys/token
          env:
{variables}\
          livenessProbe:
{probe}\
          resources:
            requests: {{cpu: {cpus}, memory: {memory}}}
            limits: {{cpu: {cpus}, memory: {memory}}}
          securityContext:
{rights}\
          volumeMounts:
            - {{name: keys, mountPath: /keys, readOnly: true}}
{writable}\
      volumes:
        - {{name: keys, secret: {{secretName: zray-token}}}}
{empty}\
        - {{name: shm, emptyDir: {{medium: Memory, sizeLimit: {store}}}}}
"""
USER = 1000
# Parts of the head's pod and of the nodes' pods.
SHARED = {
    "variables": """\
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIP}}
            - {name: ZRAY_TMPDIR, value: /run/zray}
            - {name: ZRAY_LOG_DIR, value: /tmp/logs}
            - {name: HOME, value: /tmp}
""",
    "probe": """\
            exec: {command: [zray, status, --compact]}
            initialDelaySeconds: 30
            periodSeconds: 60
            timeoutSeconds: 30
            failureThreshold: 3
""",
    "user_of_pod": f"""\
        runAsNonRoot: true
        runAsUser: {USER}
        runAsGroup: {USER}
        fsGroup: {USER}
        seccompProfile: {{type: RuntimeDefault}}
""",
    "rights": """\
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
""",
    "writable": """\
            - {name: run, mountPath: /run/zray}
            - {name: tmp, mountPath: /tmp}
            - {name: shm, mountPath: /dev/shm}
""",
    "empty": """\
        - {name: run, emptyDir: {}}
        - {name: tmp, emptyDir: {}}
""",
}
DOCKERFILE = """\
# An image for `zray manifests`, written by `zray manifests --dockerfile`.  Beside it: a wheel of zray (scripts/wheel),
# and your program's own packages in requirements.txt.
FROM python:{python}-slim
COPY zray-*.whl requirements.txt /tmp/
RUN pip install --no-cache-dir /tmp/zray-*.whl -r /tmp/requirements.txt && rm /tmp/zray-*.whl /tmp/requirements.txt
RUN useradd --uid {user} --no-create-home zray
USER {user}
WORKDIR /tmp
"""
PORT = 6379
HEAD_STORE = 64 << 20
DRAIN_SECONDS = 60
END_SECONDS = 30  # for the end in order, behind the drain
UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "k": 10**3, "M": 10**6, "G": 10**9}
STORE_SHARE = 0.3  # of a node's memory, as elsewhere
# Image names of the distribution specification, with a tag or a digest.
IMAGE = r"[a-zA-Z0-9][a-zA-Z0-9._:/@-]*"


def size(context: click.Context, option: click.Parameter, text: str) -> int:
    """The bytes of a quantity as Kubernetes has them: 4Gi, 512Mi, 1G."""
    found = re.fullmatch(r"(\d+)(|[KMG]i|[kMG])", text)
    if not found or not int(found[1]):
        raise click.BadParameter("a quantity of memory is needed, like 4Gi or 512Mi.")
    return int(found[1]) * UNITS[found[2]]


def image_name(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """--image, as it may stand in the text."""
    if text is not None and not re.fullmatch(IMAGE, text):
        raise click.BadParameter("the name of an image is needed, like registry.example/zray:1.")
    return text


def drawn_secrets() -> tuple[str, str]:
    """New keys of a head and a token for its cluster, encoded for a Secret."""
    from zray.host.security.keyring import KeyPair, Token, check_of

    keys = KeyPair.draw()
    token = Token.draw(keys.public)
    found = keys.secret + check_of(keys.secret), token.encode().encode()
    head_key, encoded = (base64.b64encode(secret).decode() for secret in found)
    return head_key, encoded


@click.command()
@click.option("--image", metavar="IMAGE", callback=image_name, help="The image: Python, zray and your packages.")
@click.option("--nodes", type=click.IntRange(0), default=3, metavar="N", help="Number of nodes. [3]")
@click.option("--cpus", type=click.IntRange(1), default=2, metavar="N", help="CPUs of a node. [2]")
@click.option("--memory", callback=size, default="4Gi", metavar="BYTES", help="Memory of a node. [4Gi]")
@click.option("--head-memory", callback=size, default="512Mi", metavar="BYTES", help="Memory of the head. [512Mi]")
@click.option("--dockerfile", is_flag=True, help="Print a Dockerfile for the image instead.")
def manifests(image: str | None, nodes: int, cpus: int, memory: int, head_memory: int, dockerfile: bool) -> None:
    """Print a head and nodes for Kubernetes, with new keys: for `kubectl apply -f -`.

    A pod of the head that is started again, elsewhere too, continues with the state in its volume.  A pod of a node
    that is told to end drains first.
    """
    if dockerfile:
        click.echo(DOCKERFILE.format(python=f"{sys.version_info[0]}.{sys.version_info[1]}", user=USER), nl=False)
        return
    if image is None:
        raise click.UsageError("Give --image IMAGE: `zray manifests --dockerfile` prints how to build one.")
    head_key, token = drawn_secrets()
    text = TEMPLATE.format(
        **SHARED,
        command=f"zray manifests --nodes {nodes} --image {image}",
        nodes=nodes,
        image=image,
        head_key=head_key,
        token=token,
        port=PORT,
        head_store=HEAD_STORE,
        head_memory=head_memory,
        cpus=cpus,
        memory=memory,
        store=int(memory * STORE_SHARE),
        drain=DRAIN_SECONDS,
        grace=DRAIN_SECONDS + END_SECONDS,
    )
    click.echo(text, nl=False)
