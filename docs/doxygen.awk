# What doxygen is shown of a file. Comments are plain text and not its markup: signs that mean something to it are
# escaped outside of quoted code, indented lines are shown as they are, a minus at the beginning of a line is no list, and
# "et al." ends no sentence. Links into a page lead to the page, since doxygen numbers its headings anew.
#   awk -f docs/doxygen.awk FILE.hpp|FILE.md

function escaped(text) {
  if (page) gsub(/@/, "\\\\&", text)
  else gsub(/[\\<>#@]/, "\\\\&", text)
  gsub(/--/, "\\--", text)
  gsub(/>::/, ">\\::", text)
  gsub(/\(::/, "(\\::", text)
  gsub(/ ::/, " \\::", text)
  gsub(/et al\. /, "et al.\\&nbsp;", text)
  sub(/et al\.$/, "et al.\\&nbsp;", text)
  return text
}

# `text` with its signs escaped, except between backticks, which may be some lines apart, and between quotes, where
# doxygen leaves them alone.
function plain(text, result, at) {
  if (quotes_code) {
    at = index(text, "`")
    if (at == 0) return text
    quotes_code = 0
    result = substr(text, 1, at)
    text = substr(text, at + 1)
  }
  while (match(text, /`[^`]*`|"[^"]*"/)) {
    result = result escaped(substr(text, 1, RSTART - 1)) substr(text, RSTART, RLENGTH)
    text = substr(text, RSTART + RLENGTH)
  }
  at = index(text, "`")
  if (at == 0) return result escaped(text)
  quotes_code = 1
  return result escaped(substr(text, 1, at - 1)) substr(text, at)
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

FNR == 1 { page = FILENAME ~ /\.md$/; fenced = quotes_code = 0 }

/^[ \/]*$/ { quotes_code = 0 }  # a paragraph ends
page && /^```/ { fenced = !fenced }
page { print fenced || /^    |^```|^\|[-|: ]*$/ ? $0 : plain(to_pages($0)); next }

# A line of a block of comments.
/^ *\/\/\/([^<]|$)/ {
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
    print margin plain(text)
  }
  before = text
  next
}

{ listed = quoted = quotes_code = 0; before = "" }
# Rows of tables, each of which its includer makes something else of.
/^ *#include ".*\.inc"/ { print ""; next }
# A comment behind a member.
match($0, /\/\/\/</) { print substr($0, 1, RSTART + 3) plain(substr($0, RSTART + 4)); next }
{ print }
