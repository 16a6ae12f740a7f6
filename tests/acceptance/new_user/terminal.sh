# Sourced by new_user.sh: runs in a terminal of tmux, and what stands there when they have ended.

# on_terminal WIDTH CODE WORDS...: runs the words there, which have to end with that exit code: 130 if Ctrl-C is to be
# pressed as soon as the table has two lines. Lines, joined where the terminal had to wrap them, go to `shown`.
on_terminal() {
  local width=$1 expected=$2 socket=$place/tmux.$1
  shift 2
  rm -f code
  { printf '%q ' "$@"; echo; echo 'echo $? >code.new; mv code.new code; exec sleep 60'; } >run.sh
  echo 'set -g history-limit 10000' >tmux.conf
  env -u TMUX TERM=xterm tmux -u -f tmux.conf -S "$socket" new-session -d -x "$width" -y 40 bash run.sh
  if [ "$expected" = 130 ]; then
    socket=$socket timeout 60 bash -c 'until tmux -S "$socket" capture-pane -p | grep -qE "^ *[0-9]+/"; do sleep 0.05; done' || true
    tmux -S "$socket" send-keys C-c
  fi
  timeout 60 bash -c 'until [ -e code ]; do sleep 0.05; done' || true
  sleep 0.2
  tmux -S "$socket" capture-pane -J -p -S - | sed 's/ *$//' | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' >shown
  tmux -S "$socket" kill-server
  [ "$(cat code 2>/dev/null)" = "$expected" ] || { echo "exit code $(cat code 2>/dev/null): $(tail -n 3 shown)"; return 1; }
}
# fits WIDTH STEPS: no line is longer than the terminal (sentences are broken between words), every column ends where its heading ends, each step has one line, and no progress line is left.
fits() {
  awk -v width="$1" -v steps="$2" '
    function bad(why) { print "line " NR ": " why ": " $0; failed = 1 }
    /\033|\r/ { bad("control letters") }
    length($0) > width { bad(length($0) " columns") }
    /^ *step .* left$/ {
      headings = 0
      for (i = 1; i <= length($0); ++i)
        if (substr($0, i, 1) != " " && substr($0, i + 1, 1) ~ /^ ?$/) ends[++headings] = i
      next
    }
    /^ *[0-9]+\/[0-9]+ / && headings {
      ++seen
      if ($1 !~ "^" seen "/") bad("not step " seen)
      for (i = 1; i <= length($0); ++i)
        if (substr($0, i, 1) != " " && substr($0, i + 1, 1) ~ /^ ?$/) {
          found = 0
          for (k = 1; k <= headings; ++k) found = found || ends[k] == i
          if (!found) bad("column " i " has no heading")
        }
      next
    }
    /^step [0-9]+\/[0-9]+|rollout [0-9]+\/[0-9]+/ { bad("left by the progress line") }
    END {
      if (!headings) { print "no table"; failed = 1 }
      if (seen != steps) { print seen + 0 " lines for " steps " steps"; failed = 1 }
      exit failed
    }' shown
}
part_terminal() {
  if ! command -v tmux >/dev/null; then
    echo "new_user: terminal: skipped, no tmux (apt-get install tmux)"
    [ $status != 0 ] || status=77
    [ "${CI:-}" != true ] || status=1  # a skip there proves nothing
    return
  fi
  if [ ! -w /dev/ptmx ]; then  # a chroot; nothing can be installed for it
    echo "new_user: terminal: skipped, this system has no terminals to give (/dev/ptmx)"
    [ $status != 0 ] || status=77
    return
  fi
  local width kind run
  RANDOM=$seed
  for width in 80 160; do
    for kind in grpo dpo; do
      mkdir -p "$place/terminal/$width/$kind"
      (
        cd "$place/terminal/$width/$kind"
        ln -s "$reference/first_steps" data
        ln -s "$RLCORE_MODEL_DIR/policy" policy
        trainer $kind out 5 data policy
        on_terminal $width 0 "${run[@]}" && fits $width 12 && cp shown "$place/terminal/$width.$kind"
      ) >"$place/said" 2>&1 || fail "terminal of $width columns, $kind: $(<"$place/said")"
    done
  done
  mkdir -p "$place/terminal/ctrl_c"
  (
    cd "$place/terminal/ctrl_c"
    ln -s "$reference/first_steps" data
    ln -s "$RLCORE_MODEL_DIR/policy" policy
    trainer grpo out -1 data policy
    on_terminal 80 130 "${run[@]}" trainer.total_training_steps=9999 trainer.total_epochs=9999 &&
      fits 80 "$(cat out/latest_checkpointed_iteration.txt)" &&
      grep -q 'run the same command again' shown
  ) >"$place/said" 2>&1 || fail "Ctrl-C in a terminal: $(<"$place/said")"
  # The table is the same on every terminal: what does not fit into 80 columns would not be read at 160 either.
  diff <(grep '^ *step ' "$place/terminal/80.grpo") <(grep '^ *step ' "$place/terminal/160.grpo") ||
    fail "other headings at 160 columns"
}
