#!/bin/sh
# A SLURM of one node, all of it in a folder, without systemd: Debian's slurmctld, slurmd, slurm-client and munge.
#
#   tests/slurm/cluster.sh start DIR [PORT]   then: export SLURM_CONF=DIR/slurm.conf; sbatch ...
#   tests/slurm/cluster.sh stop DIR
#
# Jobs of the partition urgent preempt those of main. DIR must have a short path: its socket's may not exceed 107 letters. Two ports are taken, PORT and the next.
set -eu
dir=$2

start() {
  port=${1:-17817}
  mkdir -p "$dir/state" "$dir/spool"
  chmod 700 "$dir"
  head -c 1024 /dev/urandom > "$dir/munge.key"
  chmod 600 "$dir/munge.key"
  # --force: munged minds who else may write in the folders above its own, and minds root.
  /usr/sbin/munged --force --socket="$dir/munge.socket" --key-file="$dir/munge.key" --pid-file="$dir/munged.pid" \
    --log-file="$dir/munged.log" --seed-file="$dir/munge.seed"
  host=$(hostname -s)
  cat > "$dir/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket,cred_expire=5
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SchedulerParameters=batch_sched_delay=1,sched_interval=2,requeue_delay=1
KillWait=30
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 State=UP
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=2 State=UP
END
  /usr/sbin/slurmctld -f "$dir/slurm.conf"
  /usr/sbin/slurmd -f "$dir/slurm.conf"
  for _ in $(seq 60); do
    SLURM_CONF="$dir/slurm.conf" sinfo --noheader --format=%t 2> /dev/null | grep -q idle && return 0
    sleep 0.5
  done
  echo "the node does not become idle; see $dir/*.log" >&2
  return 1
}

stop() {
  for daemon in slurmd slurmctld munged; do
    if [ -f "$dir/$daemon.pid" ]; then kill "$(cat "$dir/$daemon.pid")" || true; fi
  done
}

command=$1
shift 2
"$command" "$@"
