#!/bin/sh
# An MPI job over nodes, one ckpt-run on each: mpirun on part 0, its daemons on the others, which wait there for mpirun's command.
#
#     ckpt-run --alloc J -- mpi_node.sh FOLDER RANKS_PER_NODE PROGRAM ARGUMENTS...     the same on each node
#
# FOLDER is one that all nodes see. mpirun calls this script as its remote shell, which hands the command over; so each rank has the
# environment of its own node's ckpt-run, and its agent knows it.
set -eu
if [ -n "${MPI_NODE_FOLDER:-}" ] && [ "${1:-}" != "$MPI_NODE_FOLDER" ]; then # as the remote shell: HOST COMMAND
    host=$1
    shift
    echo "$*" > "$MPI_NODE_FOLDER/.$host.$CKPT_RUN"
    mv "$MPI_NODE_FOLDER/.$host.$CKPT_RUN" "$MPI_NODE_FOLDER/$host.$CKPT_RUN"
    exit 0
fi
folder=$1 local=$2
shift 2
export MPI_NODE_FOLDER="$folder" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
part=${CKPT_PART:-0} parts=${CKPT_PARTS:-1}
# daemons of one machine would make the same folders below the one that all have
export TMPDIR="$folder/tmp.$part"
mkdir -p "$TMPDIR"
if [ "$part" -gt 0 ]; then
    while [ ! -e "$folder/part$part.$CKPT_RUN" ]; do sleep 0.02; done
    eval "exec $(cat "$folder/part$part.$CKPT_RUN")"
fi
hosts=localhost:$local other=1
while [ "$other" -lt "$parts" ]; do
    hosts=$hosts,part$other:$local
    other=$((other + 1))
done
# two "hosts" of one machine would share vader's files: between them, and so between all, by TCP
exec mpirun --oversubscribe --mca mpi_yield_when_idle 1 --mca btl self,tcp --mca plm_rsh_agent "$0" --host "$hosts" -n $((local * parts)) "$@"
