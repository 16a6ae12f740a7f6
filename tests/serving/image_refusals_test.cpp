// Images that are refused: the status, and the part that the client is told of. Nothing of them reaches the engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/serving/context.hpp"
#include "rlcore/serving/service.hpp"
#include "serving/image_model.hpp"
#include "serving/scripted_engine.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_HAS_IMAGES

namespace {

namespace fs = std::filesystem;
namespace serving = rlcore::serving;
using image_model::png, image_model::url_of, image_model::question;
using serving::json;
using testing::HasSubstr;

/// A service that sees, over an engine whose tokens are known.
struct blind_engine {
  serving::served_model served = image_model::served();
  scripted::engine engine;
  serving::context shared{served, engine};
  serving::service service{shared};

  serving::http_response post(const std::string& path, const json& body) {
    return service({"POST", path, body.dump(), "application/json"});
  }
  void refuses(const json& body, const std::string& message, const std::string& path = "/v1/chat/completions") {
    const serving::http_response r = post(path, body);
    EXPECT_EQ(r.status, 400) << r.body.substr(0, 400);
    EXPECT_THAT(json::parse(r.body)["error"]["message"].get<std::string>(), HasSubstr(message));
    EXPECT_TRUE(engine.seen.empty());
  }
  bool takes(const json& body) {
    engine.seen.clear();
    return post("/v1/chat/completions", body).status == 200 && engine.seen.size() == 1;
  }
};

std::string url_of(std::string_view bytes) { return url_of(std::vector<unsigned char>(bytes.begin(), bytes.end())); }
/// A PNG whose header tells these sides; its data are somebody else's.
std::vector<unsigned char> with_sides(std::vector<unsigned char> file, std::uint32_t width, std::uint32_t height) {
  for (int i = 0; i < 4; ++i) {
    file[static_cast<std::size_t>(16 + i)] = static_cast<unsigned char>(width >> (24 - 8 * i));
    file[static_cast<std::size_t>(20 + i)] = static_cast<unsigned char>(height >> (24 - 8 * i));
  }
  return file;
}

const std::string first_part = "messages[0].content[0]";

TEST(image_refusals, urls_that_are_none) {
  blind_engine e;
  for (const auto& [url, message] : std::vector<std::pair<std::string, std::string>>{
           {"http://x/a.png", " is to be downloaded, and this server downloads nothing"},
           {"HTTPS://x/a.png", " is to be downloaded"},
           {"ftp://x/a.png", " has a URL of an unknown kind"},
           {"", " has a URL of an unknown kind"},
           {"/etc/passwd", " has a URL of an unknown kind"},
           {"data:image/png,abc", " is no data URL in base64"},
           {"data:image/png;base64", " is no data URL in base64"},
           {"data:", " is no data URL in base64"},
           {"data:image/png;base64,%%%", " is not base64"},
           {"data:image/png;base64,", std::string(": no image; expected ") + rlcore::image::known_formats},
           {"file:///etc/passwd", " is a file of this machine"},
           {url_of("GIF89a..."), std::string(": GIF; expected ") + rlcore::image::known_formats},
           {url_of("RIFF    WEBPVP8 "),
            rlcore::image::has_webp ? ": a damaged WebP: no header can be read" : ": WebP; expected PNG or JPEG"},
           {url_of("words"), std::string(": no image; expected ") + rlcore::image::known_formats},
           {url_of("\x89PNG\r\n\x1a\n"), ": a PNG without its header"},
       }) {
    e.refuses(question({url}), first_part + message);
    e.refuses(question({url}), first_part + message, "/tokenize");
  }
}

TEST(image_refusals, parts_that_are_none) {
  blind_engine e;
  for (const auto& [part, message] : std::vector<std::pair<const char*, std::string>>{
           {R"({"type": "image_url"})", " has no URL"},
           {R"({"type": "image_url", "image_url": null, "uuid": "a"})", " has no URL"},
           {R"({"type": "image_url", "image_url": {}})", " has no URL"},
           {R"({"type": "image_url", "image_url": {"url": 3}})", " has no URL"},
           {R"({"type": "image_url", "image_url": ["x"]})", " has no URL"},
           {R"({"type": 3, "image_url": "x"})", ".type is no string"},
           {R"({"type": "video_url", "video_url": {"url": "x"}})", " is of type 'video_url'"},
           {R"({"type": "image"})", " is of type 'image'; expected text, input_text, refusal or image_url"},
           {R"("x")", " is no object"},
       }) {
    json body = question({"x"});
    body["messages"][0]["content"][0] = json::parse(part);
    e.refuses(body, first_part + message);
  }
}

TEST(image_refusals, a_damaged_one_is_named_among_others) {
  blind_engine e;
  std::vector<unsigned char> cut = png(2);
  cut.resize(cut.size() / 2);
  e.refuses(question({url_of(png(1)), url_of(cut)}), "messages[0].content[1]: a damaged PNG");
  EXPECT_EQ(e.post("/tokenize", question({url_of(cut)})).status, 200) << "the header alone decides on tokens";
}

TEST(image_refusals, sizes_are_looked_at_before_anything_is_decoded) {
  blind_engine e;
  const std::vector<unsigned char> small = png(1, 8, 8);
  const auto sided = [&](std::uint32_t width, std::uint32_t height) {
    return question({url_of(with_sides(small, width, height))});
  };
  e.refuses(sided(60000, 60000), first_part + ": an image of 60000 x 60000 pixels; at most 89478485 are decoded");
  e.refuses(sided(0, 5), first_part + ": an image without pixels");
  e.refuses(sided(4000, 10), first_part + ": an image of 4000 x 10 pixels; a side may be at most 200 times the other");
  e.refuses(sided(9000, 9000), first_part + ": a damaged PNG: the file ends too early");
  // Damaged as well, but these never come to be decoded.
  e.served.max_image_tokens = 40;
  e.refuses(sided(9000, 9000), "the request's images have 49 tokens; expected at most 40 (--max-num-batched-tokens");
  e.served.max_length = 60;
  e.refuses(sided(9000, 9000), "maximum context length is 60 tokens");
}

TEST(image_refusals, too_many) {
  blind_engine e;
  e.served.features.most_images = 2;
  const std::string url = url_of(png(1));
  EXPECT_TRUE(e.takes(question({url, url})));
  e.engine.seen.clear();
  e.refuses(question({url, url, url}), "messages[0].content[2] is image 3 of the request; expected at most 2");
  e.served.features.most_images = 0;
  e.refuses(question({url}), first_part + " is image 1 of the request; expected at most 0");
}

TEST(image_refusals, words_that_stand_for_images) {
  blind_engine e;
  const std::string url = url_of(png(1));
  e.refuses(question({url}, json::object(), "<|image_pad|>"), "2 image tokens for 1 image");
  e.refuses(question({}, json::object(), "<|image_pad|>"), "1 image tokens for 0 images");
  e.refuses({{"prompt", "<|image_pad|>"}}, "the prompt has 1 image tokens and shows no image", "/v1/completions");
  e.refuses(question({}, json::object(), "<|video_pad|>"), "<|video_pad|> may not stand in a message");
}

TEST(image_refusals, templates_and_fields_that_do_not_go_with_them) {
  blind_engine e;
  const std::string url = url_of(png(1));
  e.refuses(question({url}, {{"truncate_prompt_tokens", 5}}), "would cut a prompt");
  EXPECT_TRUE(e.takes(question({url}, {{"truncate_prompt_tokens", 500}})));
  e.engine.seen.clear();
  e.refuses(question({url}, {{"mm_processor_kwargs", {{"max_pixels", 800}}}}), "mm_processor_kwargs is not supported");
  e.served.chat = rlcore::text::chat_template::named("qwen2.5");
  e.refuses(question({url}), first_part + " is an image, and the chat template has no place for it");
  e.refuses(question({}, {{"chat_template_kwargs", {{"add_vision_id", true}}}}), "does not number images");
  EXPECT_TRUE(e.takes(question({}))) << "texts in parts are joined";
}

TEST(image_refusals, files_are_read_below_one_folder_only) {
  const scratch::folder place;
  const std::vector<unsigned char> bytes = png(1);
  const std::string file(bytes.begin(), bytes.end());
  fs::create_directories(place / "open" / "a b");
  fs::create_directories(place / "open_too");
  scratch::write(place / "open" / "a b" / "p.png", file);
  scratch::write(place / "open_too" / "secret.png", file);
  scratch::write(place / "secret.png", file);
  scratch::write(place / "open" / "words.txt", "words");
  fs::create_symlink(place / "secret.png", place / "open" / "link.png");
  fs::create_directory_symlink(place / "open_too", place / "open" / "folder");
  fs::create_symlink(place / "nowhere.png", place / "open" / "dangling.png");
  fs::create_symlink(place / "open" / "a b" / "p.png", place / "open" / "inner.png");
  ASSERT_EQ(mkfifo((place / "open" / "pipe").c_str(), 0600), 0);

  blind_engine e;
  e.served.local_files = fs::canonical(place / "open");
  const std::string root = "file://" + fs::canonical(place.path()).string();
  for (const char* good :
       {"/open/a b/p.png", "/open/a%20b/p.png", "/open/x/../a%20b/p.png", "/open/inner.png", "/open/%61%20b/p%2epng"})
    EXPECT_TRUE(e.takes(question({root + good}))) << good;
  EXPECT_TRUE(e.takes(question({"FILE://localhost" + root.substr(7) + "/open/inner.png"})));
  e.engine.seen.clear();
  const std::string outside = first_part + " is a file that does not lie below --allowed-local-media-path";
  for (const char* bad :
       {"/secret.png", "/nowhere.png", "/open", "/open/", "/open/.", "/open_too/secret.png", "/open/../secret.png",
        "/open/%2e%2e/secret.png", "/open/link.png", "/open/folder/secret.png", "/open/a b/../../secret.png"})
    e.refuses(question({root + bad}), outside);
  e.refuses(question({"file:///proc/self/root" + root.substr(7) + "/secret.png"}), outside);
  e.refuses(question({"file:///dev/zero"}), outside);
  for (const char* bad : {"/open/none.png", "/open/dangling.png", "/open/pipe", "/open/a b"})
    e.refuses(question({root + bad}), first_part + " is a file that cannot be read");
  e.refuses(question({root + "/open/words.txt"}), first_part + ": no image");
  for (const char* bad : {"file://open/inner.png", "file://", "file://host/x", "file:///a%00b"})
    e.refuses(question({bad}), first_part + " is no file:///PATH");
}

TEST(byte_budget, holders_never_have_more_than_there_is_and_nobody_waits_for_ever) {
  serving::byte_budget budget(100);
  std::atomic<int> held{0}, most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const int wanted = t == 0 ? 1000 : 10 + (t * 13 + i) % 60, got = std::min(wanted, 100);
        serving::held_bytes mine(budget, static_cast<std::size_t>(wanted));
        const int now = held += got;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) continue;
        held -= got - got / 2;
        mine.keep(static_cast<std::size_t>(got / 2));
        held -= got / 2;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(most, 100);
  serving::held_bytes all(budget, 100);  // everything came back
}

TEST(byte_budget, images_of_a_request_are_held_while_it_is_answered) {
  blind_engine e;
  e.engine.endless = true;
  json body = question({url_of(png(1))}, {{"stream", true}, {"max_tokens", 900}});
  serving::http_response open = e.post("/v1/chat/completions", body);
  std::atomic<bool> got{false};
  std::thread other([&] {
    serving::held_bytes all(e.shared.image_memory, std::size_t{2} << 30);
    got = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(got) << "the request holds its patches";
  open.stream = nullptr;  // the client has gone
  other.join();
}

TEST(byte_budget, a_client_that_leaves_waits_no_longer_and_holds_up_nobody) {
  blind_engine e;
  auto all = std::make_unique<serving::held_bytes>(e.shared.image_memory, std::size_t{2} << 30);
  std::atomic<bool> there{true};
  std::atomic<int> asked{0};
  serving::http_response gone;
  std::thread leaves([&] {
    const serving::http_request request{.method = "POST",
                                        .path = "/v1/chat/completions",
                                        .body = question({url_of(png(1))}, {{"max_tokens", 1}}).dump(),
                                        .content_type = "application/json",
                                        .connected = [&] { return ++asked, there.load(); }};
    gone = e.service(request);
  });
  while (asked < 2) std::this_thread::yield();  // it waits for the memory
  there = false;
  leaves.join();
  EXPECT_EQ(gone.status, 499);
  all.reset();
  const serving::http_response next = e.post("/v1/chat/completions", question({url_of(png(1))}, {{"max_tokens", 1}}));
  EXPECT_EQ(next.status, 200) << next.body;
}

}  // namespace

#endif

}  // namespace RLCORE_TEST_ID
