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

constexpr std::string_view kOtherRoutes =
    R"(
## Routes without a body

| route | answers |
|---|---|
| `GET /v1/models`, `GET /v1/models/{id}` | the model served and its aliases, with `max_model_len` |
| `GET /live` | 200 while the process runs; open without a key |
| `GET /ready`, `GET /health` | 200 while the engine makes steps and new work is taken, else 503; open without a key |
| `GET /metrics` | Prometheus text |
| `GET /version` | `{"version", "commit"}` |

## Headers

`Authorization: Bearer KEY` (or `x-api-key: KEY`) where the server has keys. `X-Request-Id` is taken over when it is 1 to 128 of `A-Za-z0-9._-`, and
stands in every answer and in the log; `traceparent` (W3C Trace Context) likewise. 429 and 503 come with `Retry-After` in seconds.

## Answers

    {"id":"chatcmpl-…","object":"chat.completion","created":1796000000,"model":"…","system_fingerprint":"fp_…",
     "choices":[{"index":0,"message":{"role":"assistant","content":"Hello!"},"logprobs":null,"finish_reason":"stop"}],
     "usage":{"prompt_tokens":30,"completion_tokens":3,"total_tokens":33,"prompt_tokens_details":{"cached_tokens":16},…}}

With `stream` the same comes as server-sent events: one with the role, one for every piece of text, one with the `finish_reason`, one with `usage` and no
choices if `stream_options.include_usage` asks for it, and `data: [DONE]`. An answer that fails on its way ends with an `error` event and without `[DONE]`;
a comment `: ping` comes after 15 seconds of silence.

    data: {"id":"chatcmpl-…","object":"chat.completion.chunk",…,"choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}
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
  out += kOtherRoutes;
  return out;
}

}  // namespace skein::server
