// SPDX-License-Identifier: Apache-2.0
//
// Parsing and rendering of chat templates; see chat_template.h. What comes in as JSON becomes values marked as from
// outside; what goes out is text with its origins.
#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "text/template_parser.h"
#include "text/template_run.h"

namespace skein::text {
namespace {

using templates::DictObject;
using templates::Kind;
using templates::kTrusted;
using templates::kUntrusted;
using templates::Make;
using templates::Meter;
using templates::Ref;
using templates::Value;

namespace json = boost::json;

constexpr std::string_view kExpressionTime = "2025-03-14T15:09:26";
constexpr std::array<std::string_view, 7> kKnownRoles = {"system", "developer", "user",    "assistant",
                                                         "tool",   "function",  "ipython"};

Value FromJson(Meter& meter, const json::value& value);

Value FromJsonObject(Meter& meter, const json::object& object, bool is_message = false) {
  Ref<DictObject> dict = Make<DictObject>(meter);
  for (const json::key_value_pair& member : object) {
    if (!meter.Step()) break;
    const json::string* role = is_message && member.key() == "role" ? member.value().if_string() : nullptr;
    const bool known = role != nullptr && std::find(kKnownRoles.begin(), kKnownRoles.end(), *role) != kKnownRoles.end();
    dict->Set(Value::String(meter, member.key(), kUntrusted),
              known ? Value::String(meter, *role, kTrusted) : FromJson(meter, member.value()));
  }
  return Value::Of(Kind::kDict, dict);
}

Value FromJson(Meter& meter, const json::value& value) {
  templates::DepthGuard guard(meter);
  if (!guard.ok() || !meter.Step()) return Value::None();
  switch (value.kind()) {
    case json::kind::null: return Value::None().SetFromOutside(true);
    case json::kind::bool_: return Value::Bool(value.get_bool()).SetFromOutside(true);
    case json::kind::int64: return Value::Int(value.get_int64()).SetFromOutside(true);
    case json::kind::uint64: return Value::Big(meter, templates::BigInt::FromUnsigned(value.get_uint64())).SetFromOutside(true);
    case json::kind::double_: return Value::Float(value.get_double()).SetFromOutside(true);
    case json::kind::string: return Value::String(meter, value.get_string(), kUntrusted);
    case json::kind::array: {
      std::vector<Value> items;
      if (!meter.Reserve(value.get_array().size() * sizeof(Value))) return Value::None();
      items.reserve(value.get_array().size());
      for (const json::value& item : value.get_array()) items.push_back(FromJson(meter, item));
      return Value::List(meter, std::move(items));
    }
    case json::kind::object: return FromJsonObject(meter, value.get_object());
  }
  return Value::None();
}

Value FromMessages(Meter& meter, const json::array& messages) {
  std::vector<Value> items;
  for (const json::value& message : messages) {
    const json::object* object = message.if_object();
    items.push_back(object != nullptr ? FromJsonObject(meter, *object, /*is_message=*/true) : FromJson(meter, message));
  }
  return Value::List(meter, std::move(items));
}

Status CheckKwargs(const RenderInput& input) {
  for (const json::key_value_pair& member : input.kwargs) {
    const std::string_view name = member.key();
    const bool taken = name == "messages" || name == "tools" || name == "documents" || name == "add_generation_prompt" ||
                       (name == "bos_token" && input.bos_token) || (name == "eos_token" && input.eos_token);
    if (taken) {
      return InvalidArgument(fmt::format("'{}' is set by the engine and cannot be a variable of the template's", name),
                             std::string(name));
    }
  }
  return OkStatus();
}

RenderedPrompt ToPrompt(const templates::Text& text) {
  RenderedPrompt prompt;
  // Lone surrogates become U+FFFD, which is as long, so the spans stay true.
  prompt.text = templates::ToValidUtf8(text.view());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.RunEnd(at, text.size());
    prompt.spans.push_back({at, end, text.TrustedAt(at)});
    at = end;
  }
  return prompt;
}

Result<RenderedPrompt> Finish(templates::Run& run) {
  const templates::Text text = run.Render();
  if (run.failed()) return run.meter().status();
  return ToPrompt(text);
}

Result<std::unique_ptr<const templates::Program>> ParseProgram(std::string_view source) {
  if (templates::ToValidUtf8(source) != source) return InvalidArgument("template is not valid UTF-8");
  return templates::ParseTemplate(source);
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<const templates::Program> program) : program_(std::move(program)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<const ChatTemplate>> ChatTemplate::Parse(std::string_view source) {
  SKEIN_ASSIGN_OR_RETURN(std::unique_ptr<const templates::Program> program, ParseProgram(source));
  return std::unique_ptr<const ChatTemplate>(new ChatTemplate(std::move(program)));
}

Result<RenderedPrompt> ChatTemplate::Render(const RenderInput& input, const TemplateBudgets& budgets) const {
  SKEIN_RETURN_IF_ERROR(CheckKwargs(input));
  templates::Run run(*program_, budgets, input.now);
  Meter& meter = run.meter();
  for (const json::key_value_pair& member : input.kwargs) run.Define(member.key(), FromJson(meter, member.value()));
  run.Define("messages", FromMessages(meter, input.messages));
  run.Define("tools", input.tools ? FromJson(meter, *input.tools) : Value::None());
  run.Define("documents", input.documents ? FromJson(meter, *input.documents) : Value::None());
  run.Define("add_generation_prompt", Value::Bool(input.add_generation_prompt));
  if (input.bos_token) run.Define("bos_token", Value::String(meter, *input.bos_token, kTrusted));
  if (input.eos_token) run.Define("eos_token", Value::String(meter, *input.eos_token, kTrusted));
  return Finish(run);
}

Result<std::string> RenderExpression(std::string_view source, const json::object& context,
                                     const TemplateBudgets& budgets) {
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<const templates::Program> program, ParseProgram(source));
  templates::Run run(*program, budgets, kExpressionTime);
  for (const json::key_value_pair& member : context) run.Define(member.key(), FromJson(run.meter(), member.value()));
  SKEIN_ASSIGN_OR_RETURN(RenderedPrompt prompt, Finish(run));
  return std::move(prompt.text);
}

}  // namespace skein::text
