// SPDX-License-Identifier: Apache-2.0
#include "supervisor/rank_setup.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace skein::supervisor {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

Status AddFile(const std::string& path, ModelIdentity& identity) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    return InvalidFile(fmt::format("{} cannot be looked at: {}", path, std::strerror(errno)), "MODEL");
  }
  if (!S_ISREG(found.st_mode)) return OkStatus();
  identity.bytes += static_cast<std::uint64_t>(found.st_size);
  identity.changed_ns = std::max(identity.changed_ns, found.st_mtim.tv_sec * kNsPerSecond + found.st_mtim.tv_nsec);
  return OkStatus();
}

}  // namespace

Result<ModelIdentity> IdentityOf(const std::string& path) {
  ModelIdentity identity;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    SKEIN_RETURN_IF_ERROR(AddFile(path, identity));
    return identity;
  }
  std::filesystem::directory_iterator entry(path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    SKEIN_RETURN_IF_ERROR(AddFile(entry->path().string(), identity));
  }
  if (error) return InvalidFile(fmt::format("{} cannot be read: {}", path, error.message()), "MODEL");
  return identity;
}

std::string_view BuildId() { return SKEIN_BUILD_ID; }

}  // namespace skein::supervisor
