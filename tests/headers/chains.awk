# awk -v top=<include folder> -f chains.awk <file>...: chains of headers, one a line, such that each header of a chain
# includes the one before it, directly or not. What stands before a header in a translation unit that includes a chain in
# order is therefore nothing that the header does not include itself: each is tried as if it stood alone, for the price of
# the last. Chains are chosen so that what is saved is most. Includes under a condition are not counted upon. The first
# word of a line is "json" if the chain includes nlohmann/json.hpp or fmt, else "plain".

FNR == 1 {
  file = substr(FILENAME, length(top) + 2)
  files[++n] = file
  depth = 0
}
/^[ \t]*#[ \t]*if/ { ++depth }
/^[ \t]*#[ \t]*endif/ { --depth }
/^[ \t]*#[ \t]*include[ \t]*["<]/ && depth == 0 {
  split($0, parts, /["<>]/)
  if (parts[2] ~ /^rlcore\//) includes[file] = includes[file] " " parts[2]
  else outside[file, parts[2]] = 1
  if (parts[2] ~ /^(nlohmann\/json\.hpp|fmt\/.*|regex|filesystem|Eigen\/.*|xtensor\/.*)$/) heavy[file] = 1
  if (parts[2] ~ /^(nlohmann|fmt)\//) json[file] = 1
}

# Marks everything that `file` includes as within[root, .]; the weight of root grows with it.
function walk(root, file,    words, count, i) {
  count = split(includes[file], words, " ")
  for (i = 1; i <= count; ++i)
    if (!((root, words[i]) in within)) {
      within[root, words[i]] = 1
      weight[root] += 1
      if (words[i] in heavy) weighs[root] = 1
      if (words[i] in json) json[root] = 1
      if (words[i] ~ /\.hpp$/) above[words[i]] = above[words[i]] " " root
      walk(root, words[i])
    }
}

# Finds a place for `header` right before another header of a chain, moving others where that helps.
function place(header,    words, count, i) {
  count = split(above[header], words, " ")
  for (i = 1; i <= count; ++i) {
    if (words[i] ~ /\.inc$/ || tried[words[i]] == round) continue
    tried[words[i]] = round
    if (!(words[i] in before) || place(before[words[i]])) {
      before[words[i]] = header
      return 1
    }
  }
  return 0
}

function print_chain(header) {
  if (header in before) print_chain(before[header])
  printf "%s;", header
}

END {
  for (i = 1; i <= n; ++i) {
    if (files[i] in heavy) weighs[files[i]] = 1
    walk(files[i], files[i])
    if (weighs[files[i]]) weight[files[i]] += 200
    if (files[i] ~ /\.hpp$/) bucket[weight[files[i]] + 0] = bucket[weight[files[i]] + 0] " " files[i]
    if (weight[files[i]] > most) most = weight[files[i]]
  }
  for (w = most; w >= 0; --w) {
    count = split(bucket[w], now, " ")
    for (i = 1; i <= count; ++i) {
      ++round
      if (!place(now[i])) last[++lasts] = now[i]
    }
  }
  for (i = 1; i <= lasts; ++i) {
    printf "%s;", last[i] in json ? "json" : "plain"
    print_chain(last[i])
    printf "\n"
  }
}
