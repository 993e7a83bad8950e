// SPDX-License-Identifier: Apache-2.0
//
// skein template: renders conversations with a model's chat template or a file's, and single expressions of the
// template language.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "api/conversation.h"
#include "base/json_writer.h"
#include "commands.h"
#include "formats/tokenizer_file.h"
#include "jsonl.h"
#include "model_cache.h"
#include "text/chat_template.h"

namespace skein::app {
namespace {

constexpr std::uint64_t kTemplateBytesMax = 16u << 20;

std::string TextJson(std::string_view text) {
  JsonWriter json;
  json.BeginObject().Member("text", text).EndObject();
  return json.Take();
}

Result<std::string> AnswerExpression(const boost::json::object& line) {
  SKEIN_ASSIGN_OR_RETURN(const std::string source, TextMember(line, "template"));
  const boost::json::value* variables = line.if_contains("context");
  if (variables != nullptr && !variables->is_object()) {
    return InvalidArgument("context is expected to be an object", "context");
  }
  SKEIN_ASSIGN_OR_RETURN(const std::string text, text::RenderExpression(source, variables == nullptr ? boost::json::object()
                                                                                                     : variables->get_object()));
  return TextJson(text);
}

// Takes a text out of kwargs: the names of the begin and end tokens count as the engine's own.
std::optional<std::string> TakeText(boost::json::object& kwargs, std::string_view key) {
  const auto found = kwargs.find({key.data(), key.size()});
  if (found == kwargs.end() || !found->value().is_string()) return std::nullopt;
  std::string text(found->value().get_string().data(), found->value().get_string().size());
  kwargs.erase(found);
  return text;
}

struct Template {
  std::string source;
  std::optional<std::string> bos_token, eos_token;
};

Result<std::string> AnswerConversation(const text::ChatTemplate& chat_template, const Template& own,
                                       const boost::json::object& line) {
  text::RenderInput input;
  const boost::json::value* messages = line.if_contains("messages");
  if (messages == nullptr || !messages->is_array()) return InvalidArgument("messages is expected to be a list", "messages");
  input.messages = messages->get_array();
  const auto optional_value = [&](std::string_view key) -> std::optional<boost::json::value> {
    const boost::json::value* value = line.if_contains({key.data(), key.size()});
    return value == nullptr || value->is_null() ? std::nullopt : std::optional(*value);
  };
  input.tools = optional_value("tools");
  input.documents = optional_value("documents");
  SKEIN_ASSIGN_OR_RETURN(input.add_generation_prompt, BoolMember(line, "add_generation_prompt", false));
  if (const boost::json::value* kwargs = line.if_contains("kwargs"); kwargs != nullptr && !kwargs->is_null()) {
    if (!kwargs->is_object()) return InvalidArgument("kwargs is expected to be an object", "kwargs");
    input.kwargs = kwargs->get_object();
  }
  input.bos_token = own.bos_token;
  input.eos_token = own.eos_token;
  if (std::optional<std::string> bos = TakeText(input.kwargs, "bos_token")) input.bos_token = std::move(bos);
  if (std::optional<std::string> eos = TakeText(input.kwargs, "eos_token")) input.eos_token = std::move(eos);
  if (line.contains("now")) {
    SKEIN_ASSIGN_OR_RETURN(input.now, TextMember(line, "now"));
  }
  SKEIN_ASSIGN_OR_RETURN(const text::RenderedPrompt prompt, chat_template.Render(input));
  return TextJson(prompt.text);
}

Result<Template> FindTemplate(const TemplateOptions& options) {
  Template found;
  if (!options.model.empty()) {
    SKEIN_ASSIGN_OR_RETURN(const std::string path, ResolveModel(options.model));
    SKEIN_ASSIGN_OR_RETURN(const formats::TokenizerFile file, formats::OpenTokenizer(path));
    found.source = file.chat_template;
    found.bos_token = api::TokenAsWritten(file.data, file.data.bos);
    found.eos_token = api::TokenAsWritten(file.data, file.data.eos);
  }
  if (!options.file.empty()) {
    SKEIN_ASSIGN_OR_RETURN(found.source, ReadTextFile(options.file, "--template", kTemplateBytesMax));
  } else if (found.source.empty()) {
    return InvalidArgument("a chat template is expected, found none in the model; give one with --template F", "MODEL");
  }
  return found;
}

}  // namespace

void TemplateOptions::Describe(FieldList& fields) {
  fields.AddPositional("MODEL", &model, false, "whose chat template is rendered; without --template");
  fields.Group("Template");
  fields.Add("template", "FILE", &file, "a template instead of the model's own").FlagOnly();
  fields.Add("jsonl", "", &jsonl, "answers lines of JSON from standard input; needed").FlagOnly();
  fields.Add("expressions", "", &expressions, "lines hold a template and its context each").FlagOnly();
  output.Describe(fields);
}

Status RunTemplate(const TemplateOptions& options, Context& context) {
  if (!options.jsonl) {
    return InvalidArgument("skein template reads lines of JSON and needs --jsonl, found none; see skein template --help",
                           "--jsonl");
  }
  if (options.expressions) return AnswerLines(AnswerExpression, context);
  if (options.model.empty() && options.file.empty()) {
    return InvalidArgument("skein template needs MODEL or --template FILE, found none; see skein template --help", "MODEL");
  }
  SKEIN_ASSIGN_OR_RETURN(const Template own, FindTemplate(options));
  const Result<std::unique_ptr<const text::ChatTemplate>> parsed = text::ChatTemplate::Parse(own.source);
  return AnswerLines(
      [&](const boost::json::object& line) -> Result<std::string> {
        if (!parsed.ok()) return parsed.status();
        return AnswerConversation(**parsed, own, line);
      },
      context);
}

}  // namespace skein::app
