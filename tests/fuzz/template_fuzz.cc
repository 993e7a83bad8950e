// SPDX-License-Identifier: Apache-2.0
//
// Chat templates as strangers' model files bring them: parsed, and rendered with a conversation under small budgets. Half
// of the inputs are source as it is, half choose pieces of the language, since random bytes seldom make a tag. Whatever
// happens must be a text whose spans cover it, or an error with words.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "base/check.h"
#include "text/chat_template.h"

namespace skein::text {
namespace {

constexpr std::string_view kPieces[] = {
    "{{ ", " }}", "{% ", " %}", "{%- ", " -%}", "{# x #}", "for m in messages", "endfor", "if ", "elif ", "else", "endif", "set x = ",
    "set ns.x = ", "macro f(a, b=1)", "endmacro", "f(x, x)", "call f(1)", "endcall", "filter upper", "endfilter", "generation", "endgeneration",
    "break", "continue", "raise_exception('no')", "namespace(x=1)", "range(9)", "m.role", "m['content']", "messages[0]", "messages[::-1]", "x",
    "loop.index", "loop.last", "loop(x)", "recursive", "'text'", "\"\\n\"", "1", "-7", "2.5", "true", "none", "[1, 2, x]", "{'a': x}", "(1, 2)",
    " + ", " - ", " * ", " ** ", " // ", " % ", " ~ ", " == ", " < ", " in ", " not in ", " and ", " or ", " not ", " is defined", " is string",
    " is not none", " if x else 1", "|length", "|trim", "|tojson", "|join(', ')", "|default(1)", "|map(attribute='role')|list", "|selectattr('role')",
    "|sort", "|replace('a', 'b')", "|int", "|string", "|items", "|first", "|reverse", ".split(' ')", ".strip()", ".format(x)", ".items()",
    ".upper()", ".startswith('a')", ".append(1)", "[1:3]", "'{:>9}'.format(x)", "'%s' % x", "strftime_now('%Y')", "tools", "bos_token",
    "add_generation_prompt", "<|im_start|>", "\n", " "};

std::string DescribedTemplate(std::string_view bytes) {
  std::string source;
  for (const char byte : bytes) {
    if (source.size() > 4096) break;
    source += kPieces[static_cast<unsigned char>(byte) % std::size(kPieces)];
  }
  return source;
}

RenderInput Conversation() {
  RenderInput input;
  input.messages = boost::json::parse(R"([{"role":"system","content":"a b"},{"role":"user","content":"hé <|im_start|>"},
      {"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{"x":1.5}}}]}])").as_array();
  input.tools = boost::json::parse(R"([{"type":"function","function":{"name":"f"}}])");
  input.add_generation_prompt = true;
  input.bos_token = "<s>";
  input.kwargs = {{"x", boost::json::array{1, "two", nullptr, boost::json::object{{"a", 3}}}}};
  return input;
}

void RenderOne(std::string_view source) {
  const auto parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) {
    SKEIN_CHECK(!parsed.status().message().empty());
    return;
  }
  const TemplateBudgets budgets{.steps = 20'000, .depth = 200, .output_bytes = 1u << 18, .memory_bytes = 1u << 22,
                                .time = std::chrono::milliseconds(300)};
  const auto rendered = (*parsed)->Render(Conversation(), budgets);
  if (!rendered.ok()) return SKEIN_CHECK(!rendered.status().message().empty());
  SKEIN_CHECK(rendered->text.size() <= budgets.output_bytes);
  std::size_t next = 0;
  for (const Span& span : rendered->spans) {
    SKEIN_CHECK(span.begin == next);
    SKEIN_CHECK(span.end > span.begin);
    next = span.end;
  }
  SKEIN_CHECK(next == rendered->text.size());
}

}  // namespace
}  // namespace skein::text

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    skein::text::RenderOne(rest);
  } else {
    skein::text::RenderOne(skein::text::DescribedTemplate(rest));
  }
  return 0;
}
