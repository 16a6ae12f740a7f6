#include "rlcore/data/file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/text/text_file.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::file_error;
using namespace rlcore::data;

TEST(file, what_is_written_is_read) {
  const scratch::folder place;
  std::string bytes(100000, 'x');
  bytes[7] = '\0';
  output_file out(place / "x");
  out.write(bytes);
  out.write("end");
  out.close();
  EXPECT_EQ(read_file(place / "x"), bytes + "end");
  const input_file in(place / "x");
  EXPECT_EQ(in.size(), 100003u);
  char tail[3];
  in.read(100000, std::as_writable_bytes(std::span(tail)));
  EXPECT_EQ(std::string(tail, 3), "end");
  scratch::error_of<file_error>([&] { in.read(100001, std::as_writable_bytes(std::span(tail))); },
                                {"x: ends unexpectedly at byte 100003"});
  EXPECT_FALSE(read_file("/proc/self/status").empty());  // a file that claims to be empty
}

TEST(file, is_looked_for_before_it_is_read) {
  const scratch::folder place;
  scratch::write(place / "train.jsonl", "{}");
  check_readable(place / "train.jsonl");
  scratch::error_of<file_error>([&] { check_readable(place / "trian.jsonl"); },
                                {"trian.jsonl: cannot open: No such file or directory (did you mean 'train.jsonl'?)"});
  scratch::error_of<file_error>([&] { check_readable(place / "none" / "train.jsonl"); }, {"No such file or directory"});
  scratch::error_of<file_error>([&] { check_readable(place.path()); }, {": cannot read: Is a directory"});
  scratch::error_of<file_error>([&] { check_readable(place / "train.jsonl" / "x"); }, {"Not a directory"});
  if (::geteuid() == 0) return;  // who may read everything
  std::filesystem::permissions(place / "train.jsonl", std::filesystem::perms::none);
  scratch::error_of<file_error>([&] { check_readable(place / "train.jsonl"); }, {"Permission denied"});
}

TEST(file, what_is_no_file_is_refused_before_it_is_opened) {
  const scratch::folder place;
  ASSERT_EQ(::mkfifo((place / "rows.jsonl").c_str(), 0600), 0);
  const std::vector<std::string> pipe{"rows.jsonl: cannot read: it is a named pipe; expected a regular file"};
  scratch::error_of<file_error>([&] { check_readable(place / "rows.jsonl"); }, pipe);
  scratch::error_of<file_error>([&] { read_file(place / "rows.jsonl"); }, pipe);
  scratch::error_of<file_error>([&] { input_file{place / "rows.jsonl"}; }, pipe);
  scratch::error_of<file_error>([&] { rlcore::text::read_text_file(place / "rows.jsonl"); }, pipe);
  scratch::error_of<file_error>([] { read_file("/dev/zero"); }, {"/dev/zero: cannot read: it is a device"});
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "text", 4), 4);
  ::close(ends[1]);
  EXPECT_EQ(read_file("/dev/fd/" + std::to_string(ends[0])), "text");  // the shell's <(command)
  ::close(ends[0]);
}

TEST(file, every_failure_has_path_and_reason) {
  const scratch::folder place;
  scratch::error_of<file_error>([&] { read_file(place / "no"); }, {"no: cannot open: No such file or directory"});
  scratch::error_of<file_error>([&] { read_file(place.path()); }, {"cannot read: Is a directory"});
  scratch::error_of<file_error>([&] { output_file(place / "no" / "x"); }, {"cannot create: No such file"});
  scratch::error_of<file_error>(
      [] {
        output_file full("/dev/full");
        full.write("x");
      },
      {"/dev/full: cannot write: No space left on device"});
}

TEST(file, printable_text_is_one_short_line) {
  EXPECT_EQ(printable("a\nb\tc\x7f"), "a\\nb\\x09c\\x7f");
  EXPECT_EQ(printable("\xe6\xb0\xb4"), "\xe6\xb0\xb4");
  EXPECT_EQ(printable("0123456789", 4), "01...89");
  EXPECT_LT(printable(std::string(1 << 20, 'x')).size(), 200u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
