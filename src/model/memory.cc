// SPDX-License-Identifier: Apache-2.0
#include "model/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

namespace skein::model {
namespace {

// The number a one-line file begins with; nothing when it says "max", is not there or is no number.
std::optional<std::uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size()) return std::nullopt;
  return value;
}

// The number behind `key` in a file of lines "key number" or "key: number kB".
std::optional<std::uint64_t> ReadField(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

void Lower(MemoryLimit& limit, std::uint64_t bytes, const char* reason) {
  if (bytes >= limit.bytes) return;
  limit.bytes = bytes;
  limit.reason = reason;
}

// One control group: its limit less what it uses now; pages of files give way.
void ApplyGroup(const std::string& folder, const char* limit_name, const char* usage_name, MemoryLimit& limit) {
  const auto most = ReadNumber(folder + "/" + limit_name);
  if (!most) return;
  const std::uint64_t used = ReadNumber(folder + "/" + usage_name).value_or(0);
  const std::string statistics = folder + "/memory.stat";
  const std::uint64_t cached =
      ReadField(statistics, "inactive_file").value_or(0) + ReadField(statistics, "active_file").value_or(0);
  const std::uint64_t held = used > cached ? used - cached : 0;
  Lower(limit, *most > held ? *most - held : 0, "control group");
}

// `group` and every group above it, below `mount`.
void ApplyGroups(const std::string& mount, std::string group, const char* limit_name, const char* usage_name,
                 MemoryLimit& limit) {
  for (;;) {
    ApplyGroup(mount + group, limit_name, usage_name, limit);
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

// /proc/self/cgroup has lines "number:controllers:path"; version 2 is number 0 without controllers.
void ApplyControlGroups(const std::string& root, MemoryLimit& limit) {
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers == ",,") {
      ApplyGroups(root + "/sys/fs/cgroup", path, "memory.max", "memory.current", limit);
    } else if (controllers.find(",memory,") != std::string::npos) {
      ApplyGroups(root + "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes", limit);
    }
  }
}

void ApplyAddressSpace(const std::string& root, MemoryLimit& limit) {
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY) return;
  const std::uint64_t used =
      ReadNumber(root + "/proc/self/statm").value_or(0) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  Lower(limit, space.rlim_cur > used ? space.rlim_cur - used : 0, "address space (ulimit -v)");
}

}  // namespace

MemoryLimit AvailableMemory(const std::string& root) {
  MemoryLimit limit{UINT64_MAX, "nothing"};
  if (const auto kilobytes = ReadField(root + "/proc/meminfo", "MemAvailable:")) {
    Lower(limit, *kilobytes * 1024, "free memory");
  }
  ApplyControlGroups(root, limit);
  if (root.empty()) ApplyAddressSpace(root, limit);
  return limit;
}

std::string ShownBytes(std::uint64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.1f} MB", value / 1e6);
  return fmt::format("{} bytes", bytes);
}

Status CheckMemory(const MemoryNeed& need, const MemoryLimit& limit) {
  if (need.total() <= limit.bytes) return OkStatus();
  return LimitExceeded(
      fmt::format("memory: the model needs {} (weights {}, KV cache {}, scratch {}), {} allows {}; lower --context or --kv-memory, take a "
                  "smaller model or free memory",
                  ShownBytes(need.total()), ShownBytes(need.weights_bytes), ShownBytes(need.kv_bytes),
                  ShownBytes(need.scratch_bytes), limit.reason, ShownBytes(limit.bytes)),
      "memory");
}

}  // namespace skein::model
