// SPDX-License-Identifier: Apache-2.0
//
// `skein rank` is what the supervisor starts for each rank of a mesh: no command for people, so it stands in no table and no help.
#pragma once

#include <string_view>

namespace skein::app {

inline constexpr std::string_view kRankWord = "rank";

// Does what the supervisor says, and ends the process.
[[noreturn]] void RunRankProcess();

}  // namespace skein::app
