# What doxygen is shown of a file. Comments are plain text and not its markup: signs that mean something to it are escaped
# outside of quoted code, indented lines are shown as they are, a minus at the beginning of a line is no list, and "et al."
# ends no sentence. Links into a page lead to the page, since doxygen numbers its headings anew.
#   awk -f docs/doxygen.awk FILE.hpp|FILE.md

# `text` with its signs escaped, except between backticks.
function escaped(text, parts, count, i, result) {
  count = split(text, parts, "`")
  for (i = 1; i <= count; i++) {
    if (i % 2 == 1) {
      if (page) gsub(/@/, "\\\\&", parts[i])
      else gsub(/[\\<>#@]/, "\\\\&", parts[i])
      gsub(/--/, "\\--", parts[i])
      gsub(/>::/, ">\\::", parts[i])
      gsub(/\(::/, "(\\::", parts[i])
      gsub(/ ::/, " \\::", parts[i])
      gsub(/et al\. /, "et al.\\&nbsp;", parts[i])
      sub(/et al\.$/, "et al.\\&nbsp;", parts[i])
    }
    result = result (i > 1 ? "`" : "") parts[i]
  }
  return result
}

# [text](page.md#part) as [text](page.md), [text](#part) as text.
function to_pages(line, link) {
  gsub(/\.md#[^)]*\)/, ".md)", line)
  while (match(line, /\[[^]]*\]\(#[^)]*\)/)) {
    link = substr(line, RSTART + 1, RLENGTH - 1)
    line = substr(line, 1, RSTART - 1) substr(link, 1, index(link, "](#") - 1) substr(line, RSTART + RLENGTH)
  }
  return line
}

FNR == 1 { page = FILENAME ~ /\.md$/; fenced = 0 }

page && /^```/ { fenced = !fenced }
page { print fenced || /^    |^```|^\|[-|: ]*$/ ? $0 : escaped(to_pages($0)); next }

# A line of a block of comments.
/^ *\/\/\// {
  begin = index($0, "///") + 2
  text = substr($0, begin + 1)
  margin = substr($0, 1, begin)
  if (text ~ /^ +- / && !listed && before !~ /(^|:) *$/) sub(/- /, "\\&minus; ", text)
  listed = text ~ /^ - / || (listed && text ~ /^   /)
  if (text ~ /^   / && !listed) {
    if (!quoted) print margin
    quoted = 1
    print margin "    " text
  } else {
    quoted = 0
    print margin escaped(text)
  }
  before = text
  next
}

{ listed = quoted = 0; before = "" }
# Rows of tables, each of which its includer makes something else of.
/^ *#include ".*\.inc"/ { print ""; next }
# A comment behind a member.
match($0, /\/\/\/</) { print substr($0, 1, RSTART + 3) escaped(substr($0, RSTART + 4)); next }
{ print }
