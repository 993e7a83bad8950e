// SPDX-License-Identifier: Apache-2.0
#include "server/openai/chat_prompt.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/openai/encode_within.h"
#include "server/openai/messages.h"
#include "text/rendered_tokens.h"

namespace skein::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kWhitespace = " \t\r\n\v\f";
constexpr std::string_view kOpensReasoning = "<think>";

std::string_view Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kWhitespace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhitespace) + 1 - first);
}

// Keeps the first `size` bytes of a prompt.
void CutTo(std::size_t size, text::RenderedPrompt& prompt) {
  prompt.text.resize(size);
  while (!prompt.spans.empty() && prompt.spans.back().begin >= size) prompt.spans.pop_back();
  if (!prompt.spans.empty()) prompt.spans.back().end = std::min(prompt.spans.back().end, size);
}

// Cuts what the template wrote behind the last message. Templates may trim a message's text, so the whitespace at its
// end is kept only where the template kept it.
std::optional<ApiError> EndWith(std::string_view content, text::RenderedPrompt& prompt) {
  const std::string_view core = Trimmed(content);
  if (core.empty()) {
    return BadField("continue_final_message", "continue_final_message needs a last message with text to continue");
  }
  const std::size_t found = prompt.text.rfind(core);
  if (found == std::string::npos) {
    return BadField("continue_final_message", "continue_final_message is not possible: the model's template does not "
                                              "write the last message as it is");
  }
  const std::string_view tail = content.substr(static_cast<std::size_t>(core.data() - content.data()) + core.size());
  std::size_t end = found + core.size();
  if (std::string_view(prompt.text).substr(end).starts_with(tail)) end += tail.size();
  CutTo(end, prompt);
  return std::nullopt;
}

// Whether the template itself ended the prompt with an opened <think>.
bool OpensReasoning(const text::RenderedPrompt& prompt) {
  const std::size_t last = prompt.text.find_last_not_of(kWhitespace);
  if (last == std::string::npos) return false;
  if (!std::string_view(prompt.text).substr(0, last + 1).ends_with(kOpensReasoning)) return false;
  const std::size_t begin = last + 1 - kOpensReasoning.size();
  for (const text::Span& span : prompt.spans) {
    if (span.begin <= begin && last < span.end) return span.trusted;
  }
  return false;
}

std::optional<ApiError> ReadVariables(const Fields& fields, text::RenderInput& input) {
  if (const json::value* kwargs = fields.Find("chat_template_kwargs")) input.kwargs = kwargs->get_object();
  if (fields.Knows("reasoning_effort") && fields.Has("reasoning_effort")) {
    input.kwargs.emplace("reasoning_effort", fields.Text("reasoning_effort"));  // the one among the kwargs stays
  }
  if (!fields.Knows("documents") || !fields.Has("documents")) return std::nullopt;
  const json::array& documents = fields.Find("documents")->get_array();
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (documents[i].is_object()) continue;
    return BadField("documents", fmt::format("documents[{}] is an object, found {}", i, Shown(documents[i])));
  }
  input.documents = documents;
  return std::nullopt;
}

ApiError TemplateError(const Status& status) {
  // A variable of the client's that is the engine's is the only error that has a field.
  const std::string_view field = status.field().empty() ? "messages" : "chat_template_kwargs";
  return BadField(field, fmt::format("the model's chat template: {}", status.message()));
}

}  // namespace

ApiResult<ChatPrompt> RenderChat(const Fields& fields, bool add_special, const ModelCard& card) {
  if (card.chat_template == nullptr) {
    return BadField("messages", fmt::format("{} has no chat template; send plain text to /v1/completions", card.id));
  }
  const bool continues = fields.Flag("continue_final_message");
  if (continues && fields.Has("add_generation_prompt") && fields.Flag("add_generation_prompt")) {
    return BadField("continue_final_message",
                    "continue_final_message and add_generation_prompt cannot both be true; leave one out");
  }
  text::RenderInput input;
  SKEIN_API_ASSIGN_OR_RETURN(input.messages, ReadMessages(fields.Find("messages")->get_array()));
  if (std::optional<ApiError> error = ReadVariables(fields, input)) return *error;
  input.add_generation_prompt = !continues && fields.Flag("add_generation_prompt");
  if (!card.bos.empty()) input.bos_token = card.bos;
  if (!card.eos.empty()) input.eos_token = card.eos;
  input.now = text::LocalTime();
  Result<text::RenderedPrompt> prompt = card.chat_template->Render(input);
  if (!prompt.ok()) return TemplateError(prompt.status());
  if (continues) {
    const json::string& content = input.messages.back().get_object().at("content").get_string();
    if (std::optional<ApiError> error = EndWith({content.data(), content.size()}, *prompt)) return *error;
  }
  ChatPrompt out;
  out.opens_reasoning = OpensReasoning(*prompt);
  const auto encode = [&](std::size_t bytes) { return text::EncodeRendered(*card.tokenizer, *prompt, add_special, bytes); };
  SKEIN_API_ASSIGN_OR_RETURN(out.tokens, EncodeWithin(prompt->text.size(), encode, "messages", card));
  out.text = std::move(prompt->text);
  if (out.tokens.empty()) return BadField("messages", "the model's chat template made an empty prompt of these messages");
  return out;
}

}  // namespace skein::server
