// The description at /openapi.json beside what the endpoints do. tests/acceptance/openapi.py asks by it at length.
#include "rlcore/serving/web_page.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "rlcore/serving/service.hpp"
#include "serving/scripted_engine.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace serving = rlcore::serving;
using serving::json;

struct described {
  scripted::house house;
  serving::service service{house.shared};
  json all = json::parse(service({"GET", "/openapi.json"}).body);
};

TEST(openapi, every_endpoint_that_it_names_is_there) {
  described d;
  EXPECT_EQ(d.all["openapi"], "3.1.0");
  for (const auto& [path, methods] : d.all["paths"].items())
    for (const auto& [method, about] : methods.items()) {
      const int status = d.service({method == "get" ? "GET" : "POST", path, "{", "application/json"}).status;
      EXPECT_EQ(status, method == "get" ? 200 : 400) << path;
      EXPECT_TRUE(about["responses"].contains(std::to_string(status))) << path;
    }
}

TEST(openapi, what_it_refers_to_is_there) {
  described d;
  std::size_t found = 0;
  const std::function<void(const json&)> look = [&](const json& value) {
    if (value.is_object() && value.contains("$ref")) {
      const std::string to = value["$ref"];
      EXPECT_TRUE(to.starts_with("#/") && d.all.contains(json::json_pointer(to.substr(1)))) << to;
      ++found;
    }
    if (value.is_structured())
      for (const json& part : value) look(part);
  };
  look(d.all);
  EXPECT_GT(found, 50u);
}

TEST(openapi, fields_of_requests_are_those_that_are_read) {
  described d;
  const auto sent = [&](const std::string& schema) {
    std::set<std::string> names;
    for (const json& part : d.all["components"]["schemas"][schema]["allOf"])
      for (const auto& [name, about] :
           (part.contains("$ref") ? d.all["components"]["schemas"]["sampling"] : part)["properties"].items())
        names.insert(name);
    return names;
  };
  const auto unread = [&](const std::set<std::string>& names, const std::string& path, json body) {
    for (const std::string& name : names)
      if (!body.contains(name)) body[name] = nullptr;
    EXPECT_EQ(d.service({"POST", path, body.dump(), "application/json"}).status, 200);
    EXPECT_TRUE(d.house.logged.empty()) << d.house.logged.front();  // an unknown field is logged
  };
  unread(sent("completion_request"), "/v1/completions", {{"prompt", "a"}});
  unread(sent("chat_request"), "/v1/chat/completions",
         {{"messages", json::array({{{"role", "user"}, {"content", "a"}}})}});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
