#!/bin/sh
# nvidia-smi of a simulated GPU: shows the devices that this container was given, and nothing else.
# Each is a variable SIMULATED_GPU_*:
# index|product|uuid|MiB|bus|profile|partition uuid|driver|MiB of the GPU|compute mode|time slice|sharing

# The GPUs are numbered from 0, as a container sees real ones.
devices() {
    seen="" next=-1
    env | grep '^SIMULATED_GPU_' | sort | cut -d= -f2- | while IFS='|' read -r _ product uuid rest; do
        [ "$uuid" = "$seen" ] || next=$((next + 1))
        seen="$uuid"
        echo "$next|$product|$uuid|$rest"
    done
}

value() {
    case "$1" in
        index) echo "$2" ;;
        name | gpu_name) echo "$3" ;;
        uuid | gpu_uuid) echo "$4" ;;
        memory.total) if [ -n "$units" ]; then echo "$5 MiB"; else echo "$5"; fi ;;
        memory.used) if [ -n "$units" ]; then echo "0 MiB"; else echo 0; fi ;;
        pci.bus_id | gpu_bus_id) echo "$6" ;;
        driver_version) echo "$9" ;;
        count) devices | cut -d'|' -f3 | uniq | grep -c . ;;
        mig.mode.current) if [ -n "$7" ]; then echo Enabled; else echo Disabled; fi ;;
        compute_mode) echo "${10}" ;;
        utilization.gpu) if [ -n "$units" ]; then echo "0 %"; else echo 0; fi ;;
        *) echo "[N/A]" ;;
    esac
}

list() {
    last=""
    number=0
    devices | while IFS='|' read -r index product uuid memory bus profile partition driver board mode slice sharing; do
        if [ "$uuid" != "$last" ]; then
            echo "GPU $index: $product (UUID: $uuid)"
            last="$uuid"
            number=0
        fi
        if [ -n "$profile" ]; then
            printf '  MIG %-12s Device %2d: (UUID: %s)\n' "$profile" "$number" "$partition"
            number=$((number + 1))
        fi
    done
}

query() {
    [ -n "$header" ] && echo "$1" | sed 's/,/, /g'
    last=""
    devices | while IFS='|' read -r index product uuid memory bus profile partition driver board mode slice sharing; do
        [ "$uuid" = "$last" ] && continue
        last="$uuid"
        line=""
        for field in $(echo "$1" | tr ',' ' '); do
            found=$(value "$field" "$index" "$product" "$uuid" "$board" "$bus" "$profile" "$partition" "$driver" "$mode")
            line="${line:+$line, }$found"
        done
        echo "$line"
    done
}

table() {
    version=$(devices | head -1 | cut -d'|' -f8)
    echo "NVIDIA-SMI (simulated)    Driver Version: ${version:-none}"
    printf '%-4s %-28s %-14s %-10s %-11s %-18s %s\n' GPU Name Bus-Id Memory MIG Compute-Mode Sharing
    devices | while IFS='|' read -r index product uuid memory bus profile partition driver board mode slice sharing; do
        printf '%-4s %-28s %-14s %-10s %-11s %-18s %s\n' \
            "$index" "$product" "$bus" "${memory}MiB" "${profile:--}" "$mode" "$sharing"
    done
}

policies() {
    devices | while IFS='|' read -r index product uuid memory bus profile partition driver board mode slice sharing; do
        echo "GPU $index: Timeslice $slice"
    done | uniq
}

if [ -z "$(devices)" ]; then
    echo "No devices were found"
    exit 6
fi

asked="" header=1 units=1 action=table
if [ "$1" = compute-policy ]; then
    case "$2" in
        -l | --list) policies; exit 0 ;;
        *) echo "nvidia-smi (simulated): compute-policy knows --list alone" >&2; exit 2 ;;
    esac
fi
for argument in "$@"; do
    case "$argument" in
        -L | --list-gpus) action=list ;;
        --query-gpu=*) action=query asked="${argument#*=}" ;;
        --format=*)
            case "$argument" in *noheader*) header="" ;; esac
            case "$argument" in *nounits*) units="" ;; esac
            ;;
        *)
            echo "nvidia-smi (simulated): $argument is not known; there are -L, --query-gpu=FIELDS, --format=csv and compute-policy --list" >&2
            exit 2
            ;;
    esac
done

case "$action" in
    list) list ;;
    query) query "$asked" ;;
    *) table ;;
esac
