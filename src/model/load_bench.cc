// SPDX-License-Identifier: Apache-2.0
//
// load_bench: how long the parts of a load take, beside copying as many bytes into fresh memory with the same threads. Best of
// several, everything in the page cache. (What else `load_ms` of `skein run --json` holds is the tokenizer and clearing the KV
// cache.)
//
//   load_bench MODEL CACHE_FOLDER [THREADS]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "model/model.h"

namespace skein::model {
namespace {

template <typename Work>
double BestSeconds(Work work) {
  double best = 1e30;
  for (int round = 0; round < 7; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    if (!work()) return 0;
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

bool CopyToFreshMemory(kernels::ThreadPool& pool, const Buffer& from) {
  Result<Buffer> into = Buffer::Allocate(from.size());
  if (!into.ok()) return false;
  constexpr std::size_t kPiece = 2 << 20;
  const auto pieces = static_cast<int>((from.size() + kPiece - 1) / kPiece);
  pool.Run([&](kernels::Worker& worker) {
    const auto share = worker.ShareOf(pieces);
    for (int piece = share.begin; piece < share.end; ++piece) {
      const std::size_t at = static_cast<std::size_t>(piece) * kPiece;
      std::memcpy(into->data() + at, from.data() + at, std::min(kPiece, from.size() - at));
    }
  });
  return true;
}

int Main(int argc, char** argv) {
  if (argc < 3) return std::fputs("load_bench MODEL CACHE_FOLDER [THREADS]\n", stderr), 2;
  kernels::ThreadPool pool(argc > 3 ? std::atoi(argv[3]) : kernels::AvailableCores());
  std::unique_ptr<formats::ModelFile> file;
  const double open = BestSeconds([&] {
    auto opened = formats::ModelFile::Open(argv[1]);
    if (!opened.ok()) std::fprintf(stderr, "%s\n", opened.status().message().c_str());
    if (opened.ok()) file = std::move(opened).value();
    return file != nullptr;
  });
  if (file == nullptr) return 1;
  std::unique_ptr<Model> model;
  const auto load = [&](const char* folder) {
    model.reset();
    LoadOptions options;
    options.packed_cache = folder;
    auto loaded = Model::Load(*file, options, pool);
    if (loaded.ok()) model = std::move(loaded).value();
    return model != nullptr;
  };
  const double pack = BestSeconds([&] { return load(""); });
  if (!load(argv[2]) || !load(argv[2]) || !model->cache_use().read) return std::fputs("no packed cache\n", stderr), 1;
  const double cached = BestSeconds([&] { return load(argv[2]); });
  const Buffer& weights = model->weights().memory;
  const double copy = BestSeconds([&] { return CopyToFreshMemory(pool, weights); });
  const double bytes = static_cast<double>(weights.size());
  std::printf("%d threads, %.1f MB packed\n", pool.threads(), bytes * 1e-6);
  std::printf("%-28s %8.1f ms\n", "open and read headers", open * 1e3);
  for (const auto& [name, seconds] : {std::pair("copy to fresh memory", copy), {"pack", pack}, {"read the packed cache", cached}}) {
    std::printf("%-28s %8.1f ms %7.2f GB/s %6.2f of the copy\n", name, seconds * 1e3, bytes / seconds * 1e-9, copy / seconds);
  }
  return 0;
}

}  // namespace
}  // namespace skein::model

int main(int argc, char** argv) { return skein::model::Main(argc, argv); }
