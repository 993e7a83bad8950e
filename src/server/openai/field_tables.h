// SPDX-License-Identifier: Apache-2.0
//
// The fields of every endpoint that takes a body, and caps that more than one of them has. To add a field is to add a
// row here and to read it where the endpoint's request is parsed; docs/api.md is then written anew.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "server/openai/fields.h"

namespace skein::server {

inline constexpr std::int64_t kChoicesMax = 256;          // prompts × n of one request
inline constexpr std::size_t kPromptsMax = 256;           // in one list
inline constexpr std::size_t kStopsMax = 64;              // stop texts
inline constexpr std::size_t kStopBytesMax = 1024;        // of one
inline constexpr std::size_t kStopTokensMax = 256;        // stop_token_ids
inline constexpr std::size_t kBiasesMax = 1024;           // members of logit_bias
inline constexpr std::size_t kMessagesMax = 4096;
inline constexpr std::size_t kPartsMax = 1024;            // of one message's content
inline constexpr std::size_t kDocumentsMax = 1024;
inline constexpr std::size_t kTokenizeBytesMax = 4u << 20;  // tokenising takes about 40 bytes for each at worst
inline constexpr std::size_t kDetokenizeMax = 1u << 20;     // tokens

const FieldTable& ChatFields();
const FieldTable& CompletionFields();
const FieldTable& EmbeddingFields();
const FieldTable& TokenizeFields();
const FieldTable& DetokenizeFields();

// All of them, in the order of the documentation.
std::span<const FieldTable* const> AllFieldTables();

// docs/api.md: a Markdown section for each endpoint.
std::string ApiReference();

}  // namespace skein::server
