# awk -v top=<include folder> -f names.awk standard_names.txt <file>...: every name of the standard library, nlohmann or
# fmt that a header uses comes from a standard header that it includes itself or by a header of ours, under a condition or not; what a .inc
# uses, the headers that include it must have. Compilers do not see this: their own headers include more than they must.
# One line for each fault; exit code 1 if there is one.

FNR == NR {
  if ($0 ~ /^[A-Za-z_0-9]+:/) {
    name = $1
    sub(/:$/, "", name)
    sources[name] = substr($0, length(name) + 2)
  }
  next
}
FNR == 1 {
  file = substr(FILENAME, length(top) + 2)
  files[++n] = file
}
{ sub(/\/\/.*/, "") }
/^[ \t]*#[ \t]*include[ \t]*["<]/ {
  split($0, parts, /["<>]/)
  includes[file] = includes[file] " " parts[2]
  next
}
{
  rest = $0
  gsub(/"([^"\\]|\\.)*"/, "", rest)
  if (rest ~ /(^|[^A-Za-z_0-9])_mm(256|512)?_/) use("_mm")
  if (rest ~ /(^|[^A-Za-z_0-9])nlohmann::/) use("nlohmann")
  if (rest ~ /(^|[^A-Za-z_0-9])fmt::/) use("fmt")
  while (match(rest, /std::[A-Za-z_0-9]+/)) {
    name = substr(rest, RSTART + 5, RLENGTH - 5)
    before = RSTART == 1 ? "" : substr(rest, RSTART - 1, 1)
    rest = substr(rest, RSTART + RLENGTH)
    if (before !~ /[A-Za-z_0-9]/) use(name)
  }
}

function use(name) {
  if ((file, name) in uses) return
  uses[file, name] = FNR
  names[file] = names[file] " " name
}

# Everything that `file` includes, as seen[.]; what the .inc among it use, as wanted[.].
function walk(file,    words, count, i) {
  count = split(includes[file], words, " ")
  for (i = 1; i <= count; ++i) {
    if (words[i] in seen) continue
    seen[words[i]] = 1
    walk(words[i])
  }
}
function provided(name,    words, count, i) {
  count = split(sources[name], words, " ")
  for (i = 1; i <= count; ++i)
    if (words[i] in seen) return 1
  return 0
}
function check(file, header,    words, count, i) {
  count = split(names[file], words, " ")
  for (i = 1; i <= count; ++i) {
    if (!(words[i] in sources)) {
      printf "%s:%d: std::%s is not in standard_names.txt\n", file, uses[file, words[i]], words[i]
      faults = 1
    } else if (!provided(words[i])) {
      printf "%s:%d: %s%s needs <%s>%s\n", file, uses[file, words[i]], words[i] ~ /^(_|nlohmann$|fmt$)/ ? "" : "std::", words[i], first(sources[words[i]]), \
        file == header ? "" : ", in " header
      faults = 1
    }
  }
}
function first(text) {
  sub(/^ */, "", text)
  sub(/ .*/, "", text)
  return text
}

END {
  for (i = 1; i <= n; ++i) {
    header = files[i]
    if (header !~ /\.hpp$/) continue
    split("", seen)
    walk(header)
    check(header, header)
    count = split(includes[header], parts, " ")
    for (k = 1; k <= count; ++k)
      if (parts[k] ~ /\.inc$/) check(parts[k], header)
  }
  exit faults
}
