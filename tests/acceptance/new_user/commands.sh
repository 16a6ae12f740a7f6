# Sourced by new_user.sh: the published command lines, as they stand, with stand-ins for the launchers alone.

# published NAME: the keys of a line of trainer_dapo_command_lines.json, one word each.
published() {
  sed -n "/^ \"$1\": \[/,/^ \]/s/^  \"\(.*\)\",\{0,1\}\$/\1/p" "$reference/trainer_dapo_command_lines.json" | sed 's/\\"/"/g'
}
# What python3, torchrun, deepspeed and ray are while a line runs: what follows the module's name goes to our program.
launcher() {
  while [ $# -gt 0 ]; do
    shift
    case ${1:-} in
      -m | --module) shift 2; break ;;
    esac
  done
  # shellcheck disable=SC2086
  "$bin/$program" "$@" $shrink
}
# command_line FILE NAME: sets program and shrink, and writes the line to the file `line`.
command_line() {
  awk -v name="[$2]" '$1 == name { on = 1 } !NF { on = 0 } on' "$1" >paragraph
  program=$(sed -n '1s/.* //p' paragraph)
  shrink=$(sed -n 's/^shrink: //p' paragraph | tr '\n' ' ')
  shrink=${shrink//\$HOME/$HOME}
  sed '1d; /^shrink: /d' paragraph >line
  if [ $parquet = no ]; then
    sed -i 's/\.parquet/.jsonl/g' line
    shrink=${shrink//.parquet/.jsonl}
  fi
}
# What a run has to leave: metrics of every step, all of them numbers, a report, and the model where --save_path says.
left() {
  local metrics folder saved
  metrics=$(find . -name metrics.jsonl)
  [ -n "$metrics" ] && [ "$(wc -l <<<"$metrics")" = 1 ] || { echo "metrics.jsonl: ${metrics:-none}"; return 1; }
  folder=${metrics%/*}
  grep -q '"step": *[1-9]' "$metrics" || { echo "$metrics: no step"; return 1; }
  ! grep -qE 'null|[Nn]a[Nn]|[Ii]nf' "$metrics" || { echo "$metrics: not a number"; return 1; }
  grep -q '</html>' "$folder/report.html" || { echo "no report"; return 1; }
  [[ " $(<line) $shrink" != *--save_path* ]] || {
    saved=$(sed -n 's/.*--save_path \([^ ]*\).*/\1/p' <<<"$(tr '\n' ' ' <line) $shrink")
    [ -e "$saved/config.json" ] && [ -e "$saved/tokenizer.json" ] && [ -e "$saved/model.safetensors" ] ||
      { echo "$saved: no model"; return 1; }
  }
}
part_commands() {
  local system name
  prepare_images
  for system in verl openrlhf; do
    for name in $(sed -n 's/^\[\(.*\)\] .*/\1/p' "$here/new_user/$system.txt"); do
      mkdir -p "$place/commands/$system/$name"
      (
        cd "$place/commands/$system/$name"
        cp -r "$place/hub/." .
        command_line "$here/new_user/$system.txt" "$name"
        python3() { launcher python3 "$@"; }
        torchrun() { launcher torchrun "$@"; }
        deepspeed() { launcher deepspeed "$@"; }
        ray() { launcher ray "$@"; }
        set --
        # shellcheck source=/dev/null
        (source ./line) >out 2>err </dev/null || { echo "exit code $?: $(tail -n 3 err)"; exit 1; }
        [ ! -s err ] || { echo "stderr: $(head -n 3 err)"; exit 1; }
        left
      ) >"$place/said" 2>&1 || fail "$system $name: $(<"$place/said")"
    done
  done
}
