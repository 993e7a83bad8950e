// SPDX-License-Identifier: Apache-2.0
//
// docs/api.md from the field tables.
#include <fmt/format.h>

#include "server/openai/field_tables.h"

namespace skein::server {
namespace {

constexpr std::string_view kIntroduction =
    R"(# HTTP API

Written by `skein help api` from the tables by which requests are checked (`src/server/openai/field_tables.cc`).

A body is one JSON object of at most 32 MiB: valid UTF-8, no key twice, at most 64 levels deep, nothing behind its end.
`null` is as good as leaving a field out. A whole number may be written with a fraction of zero (`16.0`). A field that is
not listed is refused with the name of the nearest one that is, since ignoring it could change what the answer means;
names that begin with `x_` are a client's own and are left alone.

A refusal is `{"error": {"message", "type", "param", "code"}}`, where `param` is the field. Its message says what was
expected, what was found and what to do. An unknown model is 404 with the code `model_not_found`; a prompt that does not
fit is 400 with the code `context_length_exceeded` and names both numbers.

Where the prompt fits and `max_tokens` goes beyond the context, the answer gets what is left of the context.
)";

// Text in a cell of a table.
std::string Cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

void AppendDone(const FieldTable& table, std::string& out) {
  out += "| field | takes | default | meaning |\n|---|---|---|---|\n";
  for (const FieldSpec& spec : table.fields) {
    if (spec.use != FieldUse::kDone) continue;
    out += fmt::format("| `{}` | {} | {} | {} |\n", spec.name, Cell(Expected(spec)),
                       spec.required ? "required" : Cell(spec.fallback), Cell(spec.meaning));
  }
}

void AppendNames(const FieldTable& table, FieldUse use, std::string_view heading, std::string& out) {
  bool is_first = true;
  for (const FieldSpec& spec : table.fields) {
    if (spec.use != use) continue;
    if (is_first) out += fmt::format("\n{}\n\n", heading);
    is_first = false;
    out += fmt::format("- `{}`: {}", spec.name, spec.meaning);
    if (!spec.harmless.empty()) {
      const std::string_view values = spec.harmless.substr(1, spec.harmless.size() - 2);
      out += fmt::format(" (taken: `{}`)", values);
    }
    out += '\n';
  }
}

}  // namespace

std::string ApiReference() {
  std::string out(kIntroduction);
  for (const FieldTable* table : AllFieldTables()) {
    out += fmt::format("\n## {}\n\n{}\n\n", table->route, table->about);
    AppendDone(*table, out);
    AppendNames(*table, FieldUse::kIgnored, "Taken and without effect:", out);
    AppendNames(*table, FieldUse::kRefused, "Refused with 400, since ignoring them would change what the answer means:", out);
  }
  return out;
}

}  // namespace skein::server
