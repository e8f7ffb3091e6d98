"""An embedded Kubernetes API server for the demo and the tests: enough of the API, nothing of a cluster.

It stores objects in memory, counts resource versions, serves list and watch with a bounded history, calls
mutating webhooks and keeps the rules for pods that scheduling gates depend on. It runs no controllers, checks
no rights and evaluates no ValidatingAdmissionPolicy. The contract suite holds it against a real server.
"""
