//! The pages of the repository point at things that are there.

use std::fs;
use std::path::Path;

#[test]
fn every_relative_link_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above");
    let mut checked = 0;
    for page in ["README.md", "CHANGELOG.md", "examples/README.md", "examples/no_std/README.md"] {
        let page = root.join(page);
        let text = fs::read_to_string(&page).expect("the page reads");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !link.contains("://") && !link.starts_with('#') {
                let target = page.parent().expect("a page is in a folder").join(link);
                assert!(target.exists(), "{} points at {link}, which is not there", page.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "the pages have links: {checked}");
}
