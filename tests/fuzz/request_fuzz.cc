// SPDX-License-Identifier: Apache-2.0
//
// Bodies of requests as strangers send them, through everything that reads them: JSON, the field tables, messages, the
// chat template, the tokenizer. Half of the inputs are bodies as they are, half describe a body of real field names
// with odd values, since random bytes seldom get past the first quote. What is accepted must keep every promise of
// GenerationRequest; what is refused must say why.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json_writer.h"
#include "server/openai/chat_request.h"
#include "server/openai/completion_request.h"
#include "server/openai/embedding_request.h"
#include "server/openai/field_tables.h"
#include "server/openai/request_testing.h"
#include "server/openai/tokenize_request.h"

namespace skein::server {
namespace {

constexpr std::string_view kOddValues[] = {
    "null", "true", "false", "0", "-1", "1", "2", "16", "1.5", "1e308", "-0", "9223372036854775808", "18446744073709551616",
    "\"\"", "\"x\"", "\"<|end|>\"", "\"base64\"", "\"\\ud83d\\ude00\"", "[]", "[1]", "[400,1]", "[\"a\",\"b\"]", "[[1,2],\"c\"]",
    "[-1]", "[{}]", "{}", "{\"5\":1}", "{\"type\":\"text\"}", "{\"include_usage\":true}", "{\"enable_thinking\":true}",
    "{\"messages\":1}", "[{\"role\":\"user\",\"content\":\"hi\"}]", "[{\"role\":\"assistant\",\"content\":null}]",
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]"};

// Takes bytes of the input, zeros behind its end.
class Source {
 public:
  explicit Source(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::size_t Below(std::size_t limit) {
    if (bytes_.empty()) return 0;
    const auto byte = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte % limit;
  }
  std::string_view Text(std::size_t bytes) {
    const std::string_view text = bytes_.substr(0, bytes);
    bytes_.remove_prefix(text.size());
    return text;
  }

 private:
  std::string_view bytes_;
};

std::string DescribedBody(Source& source, const FieldTable& table) {
  std::string body = "{";
  while (!source.empty() && body.size() < 4096) {
    if (body.size() > 1) body += ',';
    AppendJsonString(body, table.fields[source.Below(table.fields.size())].name);
    body += ':';
    const std::size_t kind = source.Below(std::size(kOddValues) + 1);
    if (kind < std::size(kOddValues)) {
      body += kOddValues[kind];
    } else {
      AppendJsonString(body, source.Text(source.Below(32)));
    }
  }
  return body + "}";
}

void Require(bool fact) {
  if (!fact) __builtin_trap();
}

template <typename T>
bool Accepted(const ApiResult<T>& result) {
  if (result.ok()) return true;
  Require(result.error().status == 400 || result.error().status == 404);
  Require(!result.error().message.empty());
  return false;
}

void CheckGeneration(const ApiResult<GenerationRequest>& result, const ModelCard& card) {
  if (!Accepted(result)) return;
  const GenerationRequest& request = *result;
  Require(!request.prompts.empty() && request.n >= 1);
  Require(static_cast<std::int64_t>(request.prompts.size()) * request.n <= kChoicesMax);
  for (const PromptTokens& prompt : request.prompts) {
    Require(!prompt.tokens.empty() && prompt.max_tokens >= 0);
    Require(static_cast<std::int64_t>(prompt.tokens.size()) + prompt.max_tokens <= card.context);
    for (const TokenId token : prompt.tokens) Require(token >= 0 && token < card.vocabulary);
  }
  const scheduler::SamplingParameters& sampling = request.sampling;
  Require(sampling.temperature >= 0 && sampling.temperature <= 2 && sampling.top_p >= 0 && sampling.top_p <= 1);
  Require(sampling.top_k >= 0 && sampling.repetition_penalty > 0 && std::isfinite(sampling.repetition_penalty));
  for (const auto& [token, bias] : sampling.bias) Require(token >= 0 && token < card.vocabulary && std::fabs(bias) <= 100);
  for (const std::string& stop : request.stop) Require(!stop.empty() && stop.size() <= kStopBytesMax);
  Require(request.deadline_ms >= 0 && request.top_logprobs >= 0 && request.top_logprobs <= 20);
}

}  // namespace
}  // namespace skein::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace skein::server;
  static const TinyModel model;
  Source source(std::string_view(reinterpret_cast<const char*>(data), size));
  const std::size_t which = source.Below(10);
  const FieldTable& table = *AllFieldTables()[which % 5];
  const HttpRequest request = RequestOf(which < 5 ? std::string(source.Text(size)) : DescribedBody(source, table));
  switch (which % 5) {
    case 0: CheckGeneration(ParseChat(request, model.card), model.card); break;
    case 1: CheckGeneration(ParseCompletion(request, model.card), model.card); break;
    case 2: static_cast<void>(Accepted(ParseEmbedding(request, model.card))); break;
    case 3: static_cast<void>(Accepted(Tokenize(request, model.card))); break;
    default: static_cast<void>(Accepted(Detokenize(request, model.card))); break;
  }
  return 0;
}
