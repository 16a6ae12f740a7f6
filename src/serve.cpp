// A whole server on a device chosen at run time, and an evaluation whose responses come from a server: compiled once
// (the target rlcore::server).
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "rlcore/parallel/launch.hpp"
#include "rlcore/serving/http_client.hpp"
#include "rlcore/serving/serve.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/evaluation/sampled_problems.hpp"
#include "rlcore/train/run/devices.hpp"
#include "rlcore/train/run/trainers.hpp"

RLCORE_BEGIN
namespace serving {

// serving/serve.hpp
template int serve(const std::vector<std::unique_ptr<any_device>>&, const options&, const awaited_signals&);

}  // namespace serving

namespace train {
namespace {

using json = nlohmann::ordered_json;

/// The body of a request for all responses to a problem.
std::string body_of(const rollout::request& first, std::size_t n, const rollout::generation& settings) {
  const rollout::sampling& s = settings.sampling;
  const rollout::logit_rules& rules = settings.rules;
  const json body{{"prompt", first.prompt},
                  {"n", n},
                  {"seed", first.key->seed},
                  {"max_tokens", settings.max_new_tokens},
                  {"temperature", s.temperature},
                  {"top_k", s.top_k},
                  {"top_p", s.top_p},
                  {"min_p", s.min_p},
                  {"repetition_penalty", rules.repetition_penalty},
                  {"frequency_penalty", rules.frequency_penalty},
                  {"presence_penalty", rules.presence_penalty},
                  {"return_token_ids", true}};
  return body.dump();
}

/// Why a response ended. Throws error for a reason that leaves it unfinished, such as "abort".
rollout::finish finish_of(const json& reason, const std::string& server) {
  if (reason == "length") return rollout::finish::length;
  if (reason == "stop") return rollout::finish::eos;
  throw error(server + ": a response ended with finish_reason " + reason.dump() +
              ", so its text is not whole; expected stop or length");
}

/// The responses of an answer, by choice. Throws error, which begins with the server.
std::vector<rollout::response> responses_of(const serving::http_answer& answer, std::size_t n,
                                            const std::string& server) {
  if (answer.status != 200) {
    const json said = json::parse(answer.body, nullptr, false);
    const bool speaks = said.is_object() && said.contains("error") && said["error"].is_object();
    throw error(server + ": " + std::to_string(answer.status) + " " +
                (speaks ? said["error"].value("message", answer.reason) : answer.reason));
  }
  const json body = text::parse_json<error, json>(answer.body, server);
  std::vector<std::optional<rollout::response>> found(n);
  try {
    for (const json& choice : body.at("choices")) {
      auto& r = found.at(text::get_exactly<std::size_t>(choice.at("index")));
      if (r) throw error(server + ": choice " + choice.at("index").dump() + " comes twice in an answer");
      r.emplace();
      r->tokens = text::get_exactly<std::vector<std::int32_t>>(choice.at("token_ids"));
      r->reason = finish_of(choice.at("finish_reason"), server);
    }
  } catch (const error&) {
    throw;
  } catch (const std::exception&) {
    throw error(server +
                ": the answer has no choices with token_ids; expected rlcore's openai_server, or vLLM 0.10.2 or newer");
  }
  std::vector<rollout::response> all;
  for (auto& r : found) {
    if (!r)
      throw error(server + ": choice " + std::to_string(all.size()) + " of n = " + std::to_string(n) +
                  " is missing in an answer");
    all.push_back(std::move(*r));
  }
  return all;
}

/// Asks for the responses to `requests`, n neighbours of which are a problem's, with `connections` at a time.
template <class Progress>
std::vector<rollout::response> ask(const std::string& server, std::size_t connections,
                                   const std::vector<rollout::request>& requests, std::size_t n,
                                   const rollout::generation& settings, Progress&& progress) {
  const char* key = std::getenv("OPENAI_API_KEY");
  std::vector<rollout::response> responses(requests.size());
  std::atomic<std::size_t> next{0};
  std::size_t done = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    try {
      serving::http_client client(server);
      for (std::size_t i; (i = n * next++) < requests.size();) {
        auto answers = responses_of(
            client.post("/v1/completions", body_of(requests[i], n, settings), key == nullptr ? "" : key), n, server);
        const std::lock_guard lock(mutex);
        std::ranges::move(answers, responses.begin() + static_cast<std::ptrdiff_t>(i));
        progress(done += n, requests.size());
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = requests.size();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t t = std::min(connections, requests.size() / n); t > 0; --t) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  if (failure) std::rethrow_exception(failure);
  return responses;
}

}  // namespace

void evaluate_by_server(const options& opt) {
  const auto server = opt.get<std::string>("server");
  if (parallel::ranks_of_environment() > 1)
    throw config_error("server= is for one process: the server does the work, and mpirun started " +
                       std::to_string(parallel::ranks_of_environment()));
  for (const char* key : {"responses", "rollout.max_num_batched_tokens", "rollout.gpu_memory_utilization",
                          "rlcore.rollout_weights", "rlcore.compute", "rlcore.threads", "trainer.device"})
    if (opt.is_set(key))
      throw config_error("server= and " + std::string(key) + "= together; the server decides that when it is started");
  detail::check_problem_files(opt);
  evaluate_with(opt, [&](const detail::judge& judge, evaluation_summary& summary,
                         std::optional<detail::generation_log>& log, const std::filesystem::path& folder) {
    const detail::evaluated_problems asked(opt, judge);
    for (const data::prompt& p : asked.prompts.prompts)
      if (!p.images.empty()) throw data_error("a prompt has images, and server= sends tokens alone; leave server= out");
    const auto n = static_cast<std::size_t>(opt.get<std::int64_t>("rollout.n"));
    const auto connections = static_cast<std::size_t>(asked.settings.max_sequences);
    const serving::http_client tried(server);  // what is no URL is refused before anything is written
    log.emplace(folder);
    say("server   %s\n", server.c_str());
    asked.introduce(static_cast<std::int64_t>(n));
    detail::judge_rounds(opt, asked, judge, std::max<std::size_t>(1, 4 * connections / n), true, summary, log,
                         [&](const std::vector<rollout::request>& requests, auto&& progress) {
                           return ask(server, connections, requests, n, asked.settings, progress);
                         });
  });
}

}  // namespace train
RLCORE_END
