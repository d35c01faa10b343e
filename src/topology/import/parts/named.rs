//! A GPU that a file's name names: `8xa800-8nic.txt`, `dgx-h100-topo.xml`.

use super::rules::file;
use super::{GpuClues, Parts};

/// A GPU and what stands for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::import) struct NamedGpu {
    pub(in crate::import) model: String,
    pub(in crate::import) sm: u32,
    /// What is said of it.
    pub(in crate::import) note: String,
}

impl Parts<'_> {
    /// The GPU in the name of a file. With NVLinks it is no PCIe card.
    pub(in crate::import) fn named_gpu(&self, file_name: &str, nvlinks: u32) -> Option<NamedGpu> {
        let words = words(file_name);
        let has_form = |name: &str| {
            let card = name.contains("pcie");
            match (
                words.iter().any(|w| w == "pcie"),
                words.iter().any(|w| w == "sxm"),
            ) {
                (true, false) => card,
                (false, true) => !card,
                _ => card == (nvlinks == 0),
            }
        };
        let named = |&(name, _): &(&str, u32)| words.contains(&key(name));
        let models: Vec<(&str, u32)> = self.gpus().filter(named).collect();
        let best = models.iter().find(|(name, _)| has_form(name));
        if let Some(&(model, sm)) = best.or(models.first()) {
            let note = format!("GPUs taken as {model}, by the file's name (--gpu)");
            return Some(NamedGpu {
                model: model.to_owned(),
                sm,
                note,
            });
        }
        let rule = file()
            .gpus
            .iter()
            .find(|rule| words.contains(&key(&rule.title)))?;
        let clues = GpuClues {
            device: Some(&rule.device),
            nvlinks,
            ..GpuClues::default()
        };
        let (model, _) = self.gpu(&clues)?;
        let sm = self.sm_of(&model)?;
        let note = format!(
            "GPUs taken as {model}, the nearest model to {}, which the file's name names (--gpu)",
            rule.title
        );
        Some(NamedGpu { model, sm, note })
    }
}

/// The words of a file's name, in small letters, without a number of GPUs before them (`8x`), and
/// with `rtx` joined to what follows.
fn words(file_name: &str) -> Vec<String> {
    let name = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
    let name = name.to_ascii_lowercase();
    let plain = name.split(|c: char| !c.is_ascii_alphanumeric());
    let mut words: Vec<String> = Vec::new();
    for word in plain.filter(|word| !word.is_empty()) {
        let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
        let counted = rest.strip_prefix('x').filter(|_| rest.len() < word.len());
        let word = counted.filter(|rest| !rest.is_empty()).unwrap_or(word);
        match words.last_mut() {
            Some(last) if last == "rtx" => last.push_str(word),
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// The word that a model or title is known by: the first with a letter and a digit (`h100` of
/// `h100-sxm`), `rtx4090` of `rtx-4090` and `GeForce RTX 4090`.
fn key(name: &str) -> String {
    let mixed = |word: &&String| {
        let has = |of: fn(&char) -> bool| word.chars().any(|c| of(&c));
        has(char::is_ascii_alphabetic) && has(char::is_ascii_digit)
    };
    words(name).iter().find(mixed).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn names_of_files_name_gpus_or_nothing() {
        let parts = Parts::new(catalogue::hardware());
        for (name, nvlinks, model) in [
            (
                "some/where/8xa800-8nic-partial.txt",
                8,
                Some("a100-sxm-80gb"),
            ),
            ("dgx-h100-12nic.txt", 18, Some("h100-sxm")),
            ("H100_pcie.txt", 0, Some("h100-pcie")),
            ("8xh200-epyc9534-8nic.txt", 18, Some("h200")),
            ("topo_h800.xml", 8, Some("h100-sxm")),
            ("8xrtx4090-pcie-2nic.txt", 0, Some("rtx-4090")),
            ("4xgb200-6nic-partial.txt", 18, Some("gb200")),
            ("gb10-spark-1gpu.txt", 0, None),
            ("stas-2gpu-nv2.txt", 2, None),
            ("ndv5-topo.xml", 18, None),
            ("x.txt", 0, None),
            ("/home/h100/topo.txt", 18, None),
        ] {
            let found = parts.named_gpu(name, nvlinks).map(|named| named.model);
            assert_eq!(found.as_deref(), model, "{name}");
        }
    }
}
