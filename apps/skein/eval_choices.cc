// SPDX-License-Identifier: Apache-2.0
//
// skein eval choices: multiple choice by likelihood. Each choice is appended to its prompt and scored by the mean
// log-probability of its tokens; the highest is taken.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/json_writer.h"
#include "commands.h"
#include "interrupt.h"
#include "jsonl.h"
#include "load.h"
#include "progress.h"
#include "prompt_jobs.h"

namespace skein::app {
namespace {

constexpr std::uint64_t kFileBytesMax = 1u << 30;
constexpr std::size_t kInFlight = 8;

struct Item {
  std::string prompt;
  std::vector<std::string> choices;
  std::int64_t answer = -1;  // index of the right one; -1: not known
};

// One choice of an item as a sequence: tokens before `first` are the prompt's.
struct Candidate {
  std::size_t item = 0;
  std::vector<TokenId> tokens;
  std::size_t first = 0;
  double sum = 0;
};

Result<std::vector<Item>> ReadItems(const std::string& path) {
  SKEIN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, "--jsonl", kFileBytesMax));
  std::vector<Item> items;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    const std::string shown = fmt::format("{} line {}", path, ++number);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    SKEIN_ASSIGN_OR_RETURN(const boost::json::value value, ParseJson(line, shown));
    if (!value.is_object()) return InvalidArgument(fmt::format("{} is expected to be a JSON object", shown), "--jsonl");
    const boost::json::object& object = value.get_object();
    Item item;
    Result<std::string> prompt = TextMember(object, "prompt");
    if (!prompt.ok()) return prompt.status().WithContext(shown);
    item.prompt = *prompt;
    const boost::json::value* choices = object.if_contains("choices");
    if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) {
      return InvalidArgument(fmt::format("{}: choices is expected to be a list of texts", shown), "choices");
    }
    for (const boost::json::value& choice : choices->get_array()) {
      if (!choice.is_string() || choice.get_string().empty()) {
        return InvalidArgument(fmt::format("{}: choices is expected to be a list of texts", shown), "choices");
      }
      item.choices.emplace_back(choice.get_string().data(), choice.get_string().size());
    }
    if (const boost::json::value* answer = object.if_contains("answer"); answer != nullptr && answer->is_int64()) {
      item.answer = answer->get_int64();
    }
    items.push_back(std::move(item));
  }
  if (items.empty()) return InvalidArgument(fmt::format("{} is expected to hold lines, found none", path), "--jsonl");
  return items;
}

// Prompt and choice are tokenised as one text: where they meet, a token may reach into both; it counts as the choice's.
std::vector<Candidate> MakeCandidates(const std::vector<Item>& items, const text::Tokenizer& tokenizer) {
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::vector<TokenId> prompt = tokenizer.Encode(items[i].prompt, {.add_special = true, .parse_special = false});
    for (const std::string& choice : items[i].choices) {
      Candidate candidate;
      candidate.item = i;
      candidate.tokens = tokenizer.Encode(items[i].prompt + choice, {.add_special = true, .parse_special = false});
      const auto shared = std::mismatch(prompt.begin(), prompt.end(), candidate.tokens.begin(), candidate.tokens.end());
      candidate.first = static_cast<std::size_t>(shared.first - prompt.begin());
      candidate.first = std::clamp<std::size_t>(candidate.first, 1, candidate.tokens.size());
      candidates.push_back(std::move(candidate));
    }
  }
  return candidates;
}

}  // namespace

void EvalChoicesOptions::Describe(FieldList& fields) {
  fields.AddPositional("MODEL", &model, true, "a GGUF file, a Hugging Face folder, a name, or default");
  fields.Group("Choices");
  fields.Add("jsonl", "FILE", &jsonl, "lines {\"prompt\", \"choices\", \"answer\"}; needed").FlagOnly();
  machine.Describe(fields);
  output.Describe(fields);
}

Status RunEvalChoices(const EvalChoicesOptions& options, Context& context) {
  if (options.jsonl.empty()) {
    return InvalidArgument("skein eval choices needs --jsonl FILE, found none; see skein eval choices --help", "--jsonl");
  }
  SKEIN_ASSIGN_OR_RETURN(const std::vector<Item> items, ReadItems(options.jsonl));
  SKEIN_ASSIGN_OR_RETURN(const api::Machine machine, api::ResolveMachine(options.machine.Resolved()));
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<api::LoadedModel> loaded, LoadForMeasuring(options.model, machine, context));
  std::vector<Candidate> candidates = MakeCandidates(items, loaded->tokenizer());
  Cancellation cancellation;
  const InterruptGuard guard(cancellation, InterruptGuard::Mode::kOnce);
  {
    ProgressBar bar(context, "scoring");
    PromptJobs jobs;
    jobs.count = candidates.size();
    jobs.in_flight = kInFlight;
    jobs.cancellation = &cancellation;
    jobs.prompt = [&](std::size_t job) { return candidates[job].tokens; };
    jobs.on_event = [&](std::size_t job, const engine::PromptEvent& event) {
      Candidate& candidate = candidates[job];
      for (std::size_t i = 0; i < event.scores.size(); ++i) {
        const std::size_t scored = static_cast<std::size_t>(event.first_position) + i + 1;  // place of the scored token
        if (scored >= candidate.first && scored < candidate.tokens.size()) {
          candidate.sum += static_cast<double>(event.scores[i].logprob);
        }
      }
      bar.Show(job + 1, candidates.size());
      return OkStatus();
    };
    SKEIN_RETURN_IF_ERROR(RunPromptJobs(*loaded, jobs));
  }
  std::size_t right = 0, known = 0, at = 0;
  for (const Item& item : items) {
    JsonWriter json;
    json.BeginObject().Key("scores").BeginArray();
    std::int64_t best = 0;
    double best_score = -std::numeric_limits<double>::infinity();
    for (std::size_t choice = 0; choice < item.choices.size(); ++choice, ++at) {
      const Candidate& candidate = candidates[at];
      const std::size_t length = std::max<std::size_t>(candidate.tokens.size() - candidate.first, 1);
      const double score = candidate.sum / static_cast<double>(length);
      json.Value(score);
      if (score > best_score) {
        best_score = score;
        best = static_cast<std::int64_t>(choice);
      }
    }
    json.EndArray().Member("choice", best);
    known += item.answer >= 0 ? 1 : 0;
    right += item.answer == best ? 1 : 0;
    if (item.answer >= 0) json.Member("right", item.answer == best);
    json.EndObject();
    if (context.json()) SKEIN_RETURN_IF_ERROR(context.out().Write(json.Take() + "\n"));
  }
  if (context.json()) return OkStatus();
  return context.out().Write(fmt::format("{} of {} right ({} items)\n", right, known, items.size()));
}

}  // namespace skein::app
