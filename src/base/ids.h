// SPDX-License-Identifier: Apache-2.0
//
// Ids as types of their own, so that a mix-up does not compile.
#pragma once

#include <cstdint>

namespace skein {

// A number with a name. `Tag` is only there to tell the types apart.
template <typename Tag, typename Value = std::uint64_t>
struct Id {
  Value value = 0;
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

using RequestId = Id<struct RequestTag>;           // what a client asked; unique in one engine's life
using SequenceId = Id<struct SequenceTag>;         // one growing list of tokens (a choice of a request)
using BlockId = Id<struct BlockTag, std::uint32_t>;  // a place of the KV store
using StepId = Id<struct StepTag>;                 // counts steps of an engine from 1
using TokenId = std::int32_t;                      // an index into the vocabulary; plain, since kernels compute with it

}  // namespace skein
