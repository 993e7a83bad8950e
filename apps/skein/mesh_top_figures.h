// SPDX-License-Identifier: Apache-2.0
//
// What `skein mesh top` makes of a server's metrics: the series of ranks in a page of Prometheus text, and what happened between two pages. Pure
// functions; a page is a server's word and may hold anything.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace skein::app {

// One rank in one page.
struct TopRank {
  std::string pipe, tensor, layers, heads;
  std::map<std::string, double, std::less<>> values;  // by the series' name without "skein_rank_"
  double Value(std::string_view name) const;           // 0 where the page has none
};
using TopPage = std::map<int, TopRank>;  // by rank

// Errors: kInvalidFile when a series of a rank cannot be read, kUnavailable when the page has none.
Result<TopPage> ReadTopPage(std::string_view text);

// A rank over some seconds. Shares are of that time.
struct TopRow {
  int rank = 0;
  std::string pipe, tensor, layers, heads;
  double memory_bytes = 0, busy = 0, communication = 0, waiting = 0, steps_per_s = 0, sent_bytes_per_s = 0, restarts = 0;
};
// A counter that fell was started anew: what it shows now is what it grew by.
std::vector<TopRow> TopRows(const TopPage& before, const TopPage& now, double seconds);

std::string TopText(const std::vector<TopRow>& rows);
std::string TopJson(const std::vector<TopRow>& rows, double seconds);

}  // namespace skein::app
