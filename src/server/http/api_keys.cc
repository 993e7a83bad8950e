// SPDX-License-Identifier: Apache-2.0
#include "server/http/api_keys.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

namespace skein::server {
namespace {

constexpr std::size_t kKeyMin = 8, kKeyMax = 512;  // characters
constexpr std::size_t kKeysMax = 10'000;
constexpr std::size_t kFileMax = 1 << 20;  // bytes

std::array<unsigned char, 32> Digest(std::string_view text) {
  std::array<unsigned char, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

// The next word of a line, up to a blank or a comment; empty at the end.
std::string_view NextWord(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t\r"), line.size());
  line.remove_prefix(begin);
  if (!line.empty() && line.front() == '#') line = {};
  const std::string_view word = line.substr(0, line.find_first_of(" \t\r"));
  line.remove_prefix(word.size());
  return word;
}

std::string NameOf(const std::array<unsigned char, 32>& digest) {
  std::string name = "key-";
  for (std::size_t k = 0; k < 6; ++k) name += fmt::format("{:02x}", digest[k]);
  return name;
}

bool IsVisible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

Status ApiKeys::Add(std::string_view text, std::string_view source) {
  const std::size_t before = keys_.size();
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view key = NextWord(line), tenant = NextWord(line), admin = NextWord(line);
    if (key.empty()) continue;
    if (key.size() < kKeyMin || key.size() > kKeyMax || !IsVisible(key)) {
      return InvalidArgument(fmt::format("{} line {}: expected a key of {} to {} visible ASCII characters, found {}",
                                         source, number, kKeyMin, kKeyMax, key.size()),
                             "api_key_file");
    }
    if (!IsVisible(tenant) || tenant.size() > 64 || (!admin.empty() && admin != "admin") || !NextWord(line).empty()) {
      return InvalidArgument(fmt::format("{} line {}: expected `KEY [TENANT [admin]]`", source, number),
                             "api_key_file");
    }
    if (keys_.size() >= kKeysMax) {
      return InvalidArgument(fmt::format("{}: more than {} keys", source, kKeysMax), "api_key_file");
    }
    Key added{.digest = Digest(key), .tenant = std::string(tenant), .admin = !admin.empty()};
    if (added.tenant.empty()) added.tenant = NameOf(added.digest);
    keys_.push_back(std::move(added));
  }
  if (keys_.size() == before) {
    return InvalidArgument(fmt::format("{} has no key; write one a line, or leave it away", source), "api_key_file");
  }
  return OkStatus();
}

Result<std::string> ApiKeys::ReadFile(const std::string& path, bool& readable_by_others) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return InvalidFile(fmt::format("{}: {}", path, std::strerror(errno)), "api_key_file");
  struct stat about {};
  readable_by_others = ::fstat(file, &about) == 0 && (about.st_mode & 077) != 0;
  std::string text(kFileMax + 1, '\0');
  std::size_t size = 0;
  ssize_t now = 0;
  while (size < text.size() && (now = ::read(file, text.data() + size, text.size() - size)) > 0) {
    size += static_cast<std::size_t>(now);
  }
  const int error = errno;
  ::close(file);
  if (now < 0) return InvalidFile(fmt::format("{}: {}", path, std::strerror(error)), "api_key_file");
  if (size > kFileMax) return InvalidFile(fmt::format("{}: expected at most {} bytes", path, kFileMax), "api_key_file");
  text.resize(size);
  return text;
}

const ApiKeys::Key* ApiKeys::Find(std::string_view presented) const {
  // No early exit, and no branch on what matched: the index is put together from masks.
  const auto digest = Digest(presented);
  std::size_t found = 0;  // index + 1
  for (std::size_t k = 0; k < keys_.size(); ++k) {
    const auto differs =
        static_cast<std::size_t>(CRYPTO_memcmp(digest.data(), keys_[k].digest.data(), digest.size()) != 0);
    found |= (differs - 1) & (k + 1) & (static_cast<std::size_t>(found != 0) - 1);
  }
  return found == 0 ? nullptr : &keys_[found - 1];
}

}  // namespace skein::server
