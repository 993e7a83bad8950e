// SPDX-License-Identifier: Apache-2.0
//
// Ranks for tests: the same function as several threads, or as several processes that fork makes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/transports/arena.h"

namespace skein::comm {

enum class RankKind { kThreads, kProcesses };
inline const char* NameOf(RankKind kind) { return kind == RankKind::kThreads ? "threads" : "shm"; }

// What a member has to say against itself: empty is good.
using RankFunction = std::function<std::string(int member)>;

// Runs function(member) for all members at once; what each says. A process that dies says how.
std::vector<std::string> RunRanks(RankKind kind, int members, const RankFunction& function);

// An arena that members of that kind can share. Ends the test program when there is none.
Arena ArenaFor(RankKind kind, int members, std::size_t slot_bytes);

}  // namespace skein::comm
