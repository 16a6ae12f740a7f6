# Completes a file of tests/snippets: the text of each block where its mark is, #include lines first, and #line so that a
# compiler speaks of the page. Run from the root of the repository; writes the marks it has met to the file `met`.
function block(file, number,    line, row, found, inside, text) {
  while ((getline line < file) > 0) {
    ++row
    if (line ~ /^```cpp/) { inside = (++found == number); if (inside) text = "#line " (row + 1) " \"" file "\"\n"; continue }
    if (line ~ /^```/) { inside = 0; continue }
    if (!inside) continue
    if (line ~ /^#include/) { includes = includes line "\n"; line = "" }
    text = text line "\n"
  }
  close(file)
  if (text == "") { print "no block " number " of C++ in " file > "/dev/stderr"; failed = 1 }
  return text
}
/^ *\/\/ <snippet: [^ ]+ [0-9]+>$/ {
  split($0, part, /[ >]+/)
  for (i = 1; i in part; ++i) if (part[i] == "<snippet:") { file = part[i + 1]; number = part[i + 2] }
  print file, number >> met
  body = body block(file, number) "#line " (FNR + 1) " \"" FILENAME "\"\n"
  next
}
{ body = body $0 "\n" }
END {
  printf "%s%s", includes, body
  exit failed
}
