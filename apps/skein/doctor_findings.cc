// SPDX-License-Identifier: Apache-2.0
//
// Each Examine function looks at one thing and says what it means for speed or for what will work.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <thread>

#include "doctor.h"
#include "kernels/arithmetic.h"
#include "kernels/threads/thread_pool.h"
#include "model/memory.h"
#include "model_cache.h"
#include "run_program.h"

namespace skein::app {
namespace {

std::string ReadSmallFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool HasProgram(std::string_view name) { return !FindProgram(name).empty(); }

Finding ExamineProcessor() {
  const std::vector<kernels::KernelPath> paths = kernels::AvailablePaths();
  std::string names;
  for (const kernels::KernelPath path : paths) names += (names.empty() ? "" : ", ") + std::string(NameOf(path));
  if (paths.front() == kernels::KernelPath::kRef) {
    return {"processor", "warn", "no AVX2: only the plain kernels run here, slowly", "lscpu | grep -i avx2"};
  }
  return {"processor", "ok", fmt::format("kernels that run here, best first: {}", names), ""};
}

Finding ExamineCores() {
  const int given = kernels::AvailableCores();
  const unsigned there = std::thread::hardware_concurrency();
  return {"cores", "ok", fmt::format("{} of {} cores are given to this process", given, there), ""};
}

Finding ExamineMemory() {
  const model::MemoryLimit limit = model::AvailableMemory();
  constexpr std::uint64_t kDefaultNeeds = 400ull << 20;
  const std::string found =
      fmt::format("{} may be taken, set by {}", model::ShownBytes(limit.bytes), limit.reason);
  if (limit.bytes < kDefaultNeeds) {
    return {"memory", "warn", found + "; the default model wants about 400 MB", "free -h; ulimit -v unlimited"};
  }
  return {"memory", "ok", found, ""};
}

Finding ExamineHugePages() {
  const std::string text = ReadSmallFile("/sys/kernel/mm/transparent_hugepage/enabled");
  if (text.find("[never]") != std::string::npos || text.empty()) {
    return {"huge pages", "warn", "transparent huge pages are off; weights are read a little slower",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"};
  }
  return {"huge pages", "ok", "the kernel grants 2 MiB pages when asked", ""};
}

Finding ExamineCache() {
  const std::string folder = CacheFolder();
  std::string existing = folder;
  struct stat found {};
  while (::stat(existing.c_str(), &found) != 0 && existing.size() > 1) {
    const std::size_t slash = existing.find_last_of('/');
    existing = slash == std::string::npos ? "." : slash == 0 ? "/" : existing.substr(0, slash);
  }
  if (::access(existing.c_str(), W_OK) != 0) {
    return {"cache folder", "warn", fmt::format("{} cannot be written", folder),
            "export SKEIN_CACHE=/a/folder/that/can/be/written"};
  }
  return {"cache folder", "ok", folder, ""};
}

Finding ExamineDefaultModel() {
  struct stat found {};
  if (::stat(DefaultModelPath().c_str(), &found) == 0) return {"default model", "ok", DefaultModelPath(), ""};
  return {"default model", "warn", fmt::format("nothing at {}", DefaultModelPath()), "skein pull default"};
}

Finding ExaminePython() {
  if (!HasProgram("python3")) {
    return {"python3", "warn", "not found; only `skein pull` needs it", "sudo apt-get install -y python3 python3-pip"};
  }
  bool has_pip = HasProgram("pip3");
  for (const char* path : {"/usr/lib/python3/dist-packages/pip", "/usr/local/lib/python3/dist-packages/pip"}) {
    has_pip = has_pip || ::access(path, R_OK) == 0;
  }
  if (!has_pip) {
    return {"python3", "warn", "pip not found; only `skein pull` needs it", "sudo apt-get install -y python3-pip"};
  }
  return {"python3", "ok", "python3 with pip, for `skein pull`", ""};
}

}  // namespace

std::vector<Finding> ExamineMachine() {
  return {ExamineProcessor(), ExamineCores(),        ExamineMemory(), ExamineHugePages(),
          ExamineCache(),     ExamineDefaultModel(), ExaminePython()};
}

}  // namespace skein::app
