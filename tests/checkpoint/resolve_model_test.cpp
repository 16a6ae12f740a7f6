#include "rlcore/checkpoint/hugging_face.hpp"

#include <optional>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::config_error;
using rlcore::checkpoint::resolve_model;

class environment {
 public:
  environment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~environment() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

void make_model(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  scratch::write(folder / "config.json", "{}");
}

TEST(resolve_model, names_the_variable_that_is_not_set) {
  const environment hub("HF_HUB_CACHE", "/nowhere");
  const auto message = [] { return scratch::error_of<config_error>([] { resolve_model("org/name"); }, {"not found"}); };
  const environment unset("RLCORE_MODEL_DIR", "");
  EXPECT_NE(message().find("; RLCORE_MODEL_DIR in the environment names a folder of models"), std::string::npos);
  const environment set("RLCORE_MODEL_DIR", "/nowhere/else");
  EXPECT_EQ(message().find("RLCORE_MODEL_DIR"), std::string::npos);
}

TEST(resolve_model, looks_in_order) {
  const scratch::folder place;
  const environment home("HOME", (place / "home").string()), hf("HF_HOME", ""), hub("HF_HUB_CACHE", ""),
      models("RLCORE_MODEL_DIR", (place / "models").string());
  const std::string error =
      scratch::error_of<config_error>([] { resolve_model("org/name"); }, {"'org/name'", "tried org/name"});
  EXPECT_NE(error.find((place / "models" / "org" / "name").string()), std::string::npos) << error;
  EXPECT_NE(error.find((place / "home/.cache/huggingface/hub/models--org--name/refs/main").string()),
            std::string::npos);

  const auto repository = place / "home/.cache/huggingface/hub/models--org--name";
  make_model(repository / "snapshots" / "abc");
  std::filesystem::create_directories(repository / "refs");
  scratch::write(repository / "refs" / "main", "abc");
  EXPECT_EQ(resolve_model("org/name"), repository / "snapshots" / "abc");
  make_model(place / "models" / "org" / "name");
  EXPECT_EQ(resolve_model("org/name"), place / "models" / "org" / "name");
  make_model(place / "home" / "mine");
  EXPECT_EQ(resolve_model("~/mine"), place / "home" / "mine");
  EXPECT_EQ(resolve_model((place / "home" / "mine").string()), place / "home" / "mine");
  make_model(place / "step" / "huggingface");  // a checkpoint
  EXPECT_EQ(resolve_model((place / "step").string()), place / "step" / "huggingface");
}

TEST(resolve_model, honours_the_cache_variables_and_refuses_the_rest) {
  const scratch::folder place;
  const environment models("RLCORE_MODEL_DIR", ""), hf("HF_HOME", (place / "hf").string());
  const auto repository = place / "hf" / "hub" / "models--org--name";
  make_model(repository / "snapshots" / "abc");
  std::filesystem::create_directories(repository / "refs");
  scratch::write(repository / "refs" / "main", "abc\n");
  {
    const environment hub("HF_HUB_CACHE", "");
    EXPECT_EQ(resolve_model("org/name"), repository / "snapshots" / "abc");
    scratch::write(repository / "refs" / "main", "gone");
    scratch::error_of<config_error>([] { resolve_model("org/name"); }, {"snapshots/gone"});
  }
  scratch::error_of<config_error>([] { resolve_model(""); }, {"empty"});
  scratch::error_of<config_error>([&] { resolve_model(place.path().string()); }, {"has no config.json"});
  scratch::error_of<config_error>([] { resolve_model("../../etc/x\n"); }, {"not found"});
}

TEST(resolve_model, says_where_the_model_of_a_run_is) {
  const scratch::folder place;
  const environment models("RLCORE_MODEL_DIR", "");
  const auto run = place / "run";
  make_model(run / "global_step_9" / "actor" / "huggingface");
  make_model(run / "global_step_10" / "actor" / "huggingface");
  std::filesystem::create_directories(run / "global_step_11");  // of a critic alone
  const auto newest = (run / "global_step_10" / "actor" / "huggingface").string();
  scratch::error_of<config_error>([&] { resolve_model(run.string()); }, {"has no config.json", "is " + newest});
  scratch::error_of<config_error>([&] { resolve_model((run / "global_step_9").string()); },
                                  {"is " + (run / "global_step_9" / "actor" / "huggingface").string()});
  scratch::write(run / "latest_checkpointed_iteration.txt", "9\n");  // the rest is of an earlier run
  scratch::error_of<config_error>([&] { resolve_model(run.string()); },
                                  {"is " + (run / "global_step_9" / "actor" / "huggingface").string()});
  scratch::write(run / "latest_checkpointed_iteration.txt", "damaged");
  scratch::error_of<config_error>([&] { resolve_model(run.string()); }, {"is " + newest});
  make_model(place / "supervised" / "global_step_2" / "huggingface");
  scratch::error_of<config_error>([&] { resolve_model((place / "supervised").string()); },
                                  {"is " + (place / "supervised" / "global_step_2" / "huggingface").string()});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
