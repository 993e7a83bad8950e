// SPDX-License-Identifier: Apache-2.0
//
// ChatTemplate turns the messages of a conversation into a model's prompt with the template that came with the model,
// a program in the Jinja language as transformers sets it up (sandboxed, trim_blocks, lstrip_blocks, break and
// continue, `generation`, tojson, raise_exception, strftime_now). It is our own interpreter, over values only: there
// is no attribute of the host's to reach for. Used by the API and by `skein template`.
//
// The prompt says for every character whether it was written by the template (or is the engine's begin or end token)
// or came from outside; only the first kind may be read as special tokens.
//
// A parsed template never changes: any number of threads may render it at once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include "base/status.h"
#include "text/template_meter.h"

namespace skein::text {

namespace templates {
class Program;
}

struct RenderInput {
  // As the request has them. A role that is one of the usual words (system, developer, user, assistant, tool, function,
  // ipython) counts as trusted, since templates write it into special tokens; everything else is untrusted.
  boost::json::array messages;
  std::optional<boost::json::value> tools;      // none when absent
  std::optional<boost::json::value> documents;  // none when absent
  bool add_generation_prompt = false;

  // Set by the engine from the model's vocabulary; trusted, so that they become special tokens. Undefined when absent.
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;

  // Further variables, of a request: untrusted. May not carry the name of one of the above that is set (messages,
  // tools, documents and add_generation_prompt count as always set).
  boost::json::object kwargs;

  std::string now = "1970-01-01T00:00:00";  // what strftime_now takes as now: ISO 8601, no zone
};

// A run of bytes of one origin; runs cover the text in order and neighbours differ.
struct Span {
  std::size_t begin;
  std::size_t end;
  bool trusted;
  friend bool operator==(const Span&, const Span&) = default;
};

struct RenderedPrompt {
  std::string text;  // UTF-8
  std::vector<Span> spans;
};

class ChatTemplate {
 public:
  // Errors of syntax are found here: kInvalidArgument with the line, kLimit when it nests too deeply.
  static Result<std::unique_ptr<const ChatTemplate>> Parse(std::string_view source);
  ~ChatTemplate();

  // kInvalidArgument when the template fails (its raise_exception's words are the message), kLimit when it spends
  // more than the budgets allow.
  Result<RenderedPrompt> Render(const RenderInput& input, const TemplateBudgets& budgets = {}) const;

 private:
  explicit ChatTemplate(std::unique_ptr<const templates::Program> program);
  const std::unique_ptr<const templates::Program> program_;
};

// Renders `source` with the members of `context` as its variables: for trying out the language. strftime_now sees a
// fixed time, so that results can be compared.
Result<std::string> RenderExpression(std::string_view source, const boost::json::object& context,
                                     const TemplateBudgets& budgets = {});

}  // namespace skein::text
