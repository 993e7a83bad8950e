// SPDX-License-Identifier: Apache-2.0
//
// Collectives that move bytes and compute nothing. Messages longer than a slot go in pieces. On failure all return the transport's status.
#pragma once

#include <cstddef>
#include <span>

#include "comm/transport.h"

namespace skein::comm {

// Everybody's bytes to everybody: member i contributes sizes[i] bytes, `out` receives all in order. `mine` may stand at its place in `out`
// already. Requires: mine has sizes[self] bytes, out their sum.
Status AllGather(Transport& transport, std::span<const std::byte> mine, std::span<const std::size_t> sizes, std::span<std::byte> out);

// The bytes of `root` to everybody.
Status Broadcast(Transport& transport, int root, std::span<std::byte> bytes);

// Between two members: one sends, the other receives as many bytes.
Status Send(Transport& transport, int to, std::span<const std::byte> bytes);
Status Receive(Transport& transport, int from, std::span<std::byte> bytes);

// Returns when all members have called it: log2(size) rounds, in round k a word to the member 2^k further (Hensgen, Finkel
// and Manber 1988).
Status Barrier(Transport& transport);

}  // namespace skein::comm
